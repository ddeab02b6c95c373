# SPDX-License-Identifier: BSD-3-Clause
# ncc as a command:
#   docker build -t ncc .                                  (--build-arg EXTRAS=[torch,ns3] for more than packetsim)
#   docker run --rm --user "$(id -u)" -v "$PWD:/srv/ncc" ncc evaluate scenario=incast datapath=packetsim
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
# No version of g++ is named, because Debian keeps only the newest.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# Of ns-3 the build takes headers and libraries; --no-deps leaves out its Python bindings, which compile for minutes.
RUN pip install --no-cache-dir -c constraints.txt scikit-build-core nanobind ninja cmake \
    && pip install --no-cache-dir -c constraints.txt --no-deps ns3 \
    && pip wheel --no-build-isolation --no-deps -w /dist . \
    && cp constraints.txt /dist

FROM python:${PYTHON}-slim
ARG EXTRAS=""
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    pip install --no-cache-dir -c /dist/constraints.txt "$(echo /dist/neighbour_cc-*.whl)${EXTRAS}"
RUN useradd ncc && install -d -o ncc /srv/ncc
USER ncc
WORKDIR /srv/ncc
ENV MPLCONFIGDIR=/tmp
ENTRYPOINT ["ncc"]
CMD ["--help"]
