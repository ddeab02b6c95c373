# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone: `make train`, `make test`. Everything is installed into .venv, once, and again when what it was
# made from changes. A stamp is written last, so an interrupted installation is taken up again.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Packages come without bytecode: unless Python may write it, every process compiles torch and Ray anew, for 8 s.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export CXX PYTHON

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
FETCH := $(PIP) install --no-compile --progress-bar off -c constraints.txt
ALL := $(VENV)/.built $(VENV)/.packages
ARGS ?=
# The stamp bears the time at which the build began: a source that changed meanwhile is newer. Each of several builds at a
# time has a stamp of its own.
# Of pip's words only ninja's steps are shown, as [12/80] world.cc.o; if it fails, the end of all that it said.
INSTALL = mkdir -p build && touch $(VENV)/.built.$$$$ && { flock build/.lock \
	$(PIP) install -v --no-build-isolation --no-deps -e . 2>&1 | tee build/install.log \
	| sed -un 's|^ *\(\[[0-9]*/[0-9]*\]\) .*/\([^/ ]*\)$$|  \1 \2|p'; } || { tail -n 60 build/install.log >&2; exit 1; } \
	&& mv $(VENV)/.built.$$$$ $(VENV)/.built
NATIVE := $(shell find CMakeLists.txt baselines envs ncc/harness tests/native -name '*.h' -o -name '*.cc' -o -name '*.cpp' -o -name '*.c' \
	-o -name '*.cmake' -o -name CMakeLists.txt -o -name signals_header.py) ncc/core/signals.py

# What brings the programs of the Linux datapath: when it comes or goes, they are built again. `make` looks each time, and
# the file is newer only when what it says has changed.
TOOLS := build/tools
CLANG := $(wildcard $(foreach folder,$(subst :, ,$(PATH)),$(folder)/clang $(folder)/clang-1[4-9]))
NOW := $(if $(CLANG),$(CLANG) $(wildcard /usr/include/bpf/bpf_helpers.h /usr/local/include/bpf/bpf_helpers.h))
$(shell mkdir -p build; echo "$(NOW)" | cmp -s - $(TOOLS) || echo "$(NOW)" > $(TOOLS))

# What shows what NCC is worth. A shape that does not hold (status 3) stays to be read; whatever else fails ends it.
NCC_EXPERIMENTS := $(basename $(notdir $(wildcard configs/experiment/ncc_*.yaml configs/experiment/spread_*.yaml)))

# Every check says in one sentence what is missing and which Debian or Ubuntu package brings it.
define CHECK
wrong=0
lacks() { echo "ncc: $$*" >&2; wrong=1; }
[ "$$(uname -sm)" = "Linux x86_64" ] || lacks "this is $$(uname -sm); the ns-3 wheel that ncc builds on exists for x86-64 Linux only."
python=
for candidate in $${PYTHON:-} python3 python3.13 python3.12 python3.11; do
  if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then python=$$candidate; break; fi
  if [ "$$candidate" = "$${PYTHON:-}" ]; then lacks "PYTHON=$$candidate is not a Python 3.11, 3.12 or 3.13 that runs."; break; fi
done
if [ -z "$$python" ]; then
  [ $$wrong = 1 ] || lacks "Python 3.11, 3.12 or 3.13 is needed and none was found: install python3 or name one with 'make PYTHON=/path/to/python3 ...'."
else
  name=$${python##*/}; case $$name in python3*) ;; *) name=python3 ;; esac
  "$$python" -c 'import venv, ensurepip' 2>/dev/null || lacks "$$python has no venv and ensurepip modules: install the package $$name-venv."
  "$$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' \
    || lacks "$$python has no Python.h to build extension modules with: install the package $$name-dev."
fi
major=$$($${CXX:-g++} -dumpversion 2>/dev/null | cut -d. -f1) || true
if [ -z "$$major" ]; then lacks "no C++ compiler ($${CXX:-g++}): install the package g++ (12 or later).";
elif [ "$$major" -lt 12 ]; then lacks "$${CXX:-g++} is version $$major and 12 or later is needed: install the package g++-12 and say 'make CXX=g++-12 ...'."; fi
[ $$wrong = 0 ] || exit 1
echo "$$python"
endef
export CHECK

# Everything that ncc needs to be built, and then what it needs to be run, trained and tested, as pyproject.toml names it.
# Of ns-3 it takes headers and libraries; what ns-3's own bindings need, which compiles for minutes, is left out.
define REQUIREMENTS
import tomllib
with open("pyproject.toml", "rb") as file:
    config = tomllib.load(file)
extras = config["project"]["optional-dependencies"]
needed = [package for extra in extras if extra not in ("all", "notebooks", "ns3") for package in extras[extra]]
for name, packages in ("build", config["build-system"]["requires"]), ("run", config["project"]["dependencies"] + needed):
    with open(f"build/{name}.txt", "w") as file:
        print(*(package for package in packages if not package.startswith("ns3")), sep="\n", file=file)
endef
export REQUIREMENTS

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: $(ALL) ## train NCC for a few minutes, then compare it with DCTCP and CUBIC under incast and on an uplink (ARGS="seed=3 ...": Hydra overrides)
	$(BIN)/python -m ncc.train $(if $(filter recipe=%,$(ARGS)),,recipe=ncc_short) $(ARGS)

test: $(ALL) ## run the tests, side by side, or those that ARGS choose (they are pytest's)
	$(BIN)/python -m pytest $(or $(ARGS),-n auto)

test-changed: $(ALL) ## run the tests that ran what has changed in Python since the last time; the first time, all
	$(BIN)/python -m pytest --testmon -n auto $(ARGS)

test-timing: $(ALL) ## judge times of the kernel, on a machine with nothing else to do (root)
	$(BIN)/python -m pytest -m timing $(ARGS)

attack: $(ALL) ## attack the agent of a host, and print what became of each attack (root, 15 minutes; ARGS are pytest's)
	$(BIN)/python -m pytest -q -r fE -m attack $(ARGS)

check-experiments: $(ALL) ## run the quick preset of every experiment, to the end (20 minutes; ARGS are pytest's)
	$(BIN)/python -m pytest -m experiments $(or $(ARGS),-n auto)

bench: $(ALL) ## measure speed, as ratios within one run
	$(BIN)/python -m ncc.bench $(ARGS)

agreement: $(ALL) ## compare packetsim with ns-3 and write docs/agreement
	$(BIN)/python -m ncc.agreement $(ARGS)

ncc-report: $(ALL) ## run all that shows what NCC is worth, in full, and write docs/experiments (ARGS="workers=2": Hydra overrides)
	for name in $(NCC_EXPERIMENTS); do \
	  $(BIN)/python -m ncc.evaluate experiment=$$name preset=full $(ARGS) || [ $$? -eq 3 ]; \
	done
	$(BIN)/python -m ncc.report

linux-report: $(ALL) ## measure what packets and agents cost on this machine (root, quiet, 3 minutes), for docs/linux (ARGS=--quick)
	$(BIN)/python -m tests.linux.report $(ARGS)

sanitize: $(VENV)/.packages ## run packetsim in random networks, with sanitizers (ARGS="--seeds 5000 --sanitizers thread")
	$(BIN)/python -m tests.packetsim.sanitized $(ARGS)

wheel: $(VENV)/.packages ## build the wheel into dist
	@rm -rf dist; mkdir -p build; flock build/.lock $(PIP) wheel -q --no-build-isolation --no-deps -w dist .

wheel-test: wheel ## install the wheel without extras into an environment outside the checkout, and test it there (ARGS are pytest's)
	$(BIN)/python -m tests.wheel dist/neighbour_cc-*.whl $(ARGS)

deb: wheel ## build a Debian package for hosts into dist, with what a policy needs to run there (dpkg-deb)
	ncc/host/deb.sh $(BIN)/python dist/neighbour_cc-*.whl dist

deb-test: wheel ## build that package, install and remove it in a copy of this system (root)
	$(BIN)/python -m tests.deb dist/neighbour_cc-*.whl

lint: $(ALL) ## style, types, import directions, licences
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	find baselines envs ncc/harness ncc/study tests/native tests/packetsim \( -name '*.h' -o -name '*.cc' -o -name '*.cpp' -o -name '*.c' \) -print0 \
	  | xargs -0 $(BIN)/clang-format --dry-run -Werror
	$(BIN)/python -m pytest -q tests/house

docs: $(ALL) $(if $(shell command -v em++),play) ## build the site of documentation into build/site; a warning is an error, a dead link a warning
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

docs-serve: $(ALL) ## the same on 127.0.0.1:8000, again whenever a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --livereload $(ARGS)

play: $(ALL) ## build the page with packetsim in a browser (the package emscripten); `ncc play` opens it
	$(BIN)/python -m ncc.study.play.build

build: $(VENV)/.packages ## rebuild the extension modules in place
	@$(INSTALL)

clean: ## remove what was built, and caches; keeps .venv's packages and runs/
	rm -rf build dist .testmondata* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache $(VENV)/.built
	find ncc envs agents baselines configs docs studies tests -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.tools: pyproject.toml constraints.txt
	@python=$$(bash -c "$$CHECK"); mkdir -p build; \
	exec 9> build/.packages.lock; flock 9; \
	if [ ! -x $(BIN)/pip ]; then echo "Creating $(VENV) with $$python."; "$$python" -m venv $(VENV); fi; \
	touch $@.new; \
	$(BIN)/python -c "$$REQUIREMENTS"; \
	{ $(FETCH) --no-deps ns3; $(FETCH) -r build/build.txt; } | sed -u '/^Requirement already/d'
	@mv $@.new $@

$(VENV)/.packages: $(VENV)/.tools
	@exec 9> build/.packages.lock; flock 9; \
	touch $@.new; \
	echo "Installing packages into $(VENV) (about 6 GB the first time, most of it torch)."; \
	$(FETCH) -r build/run.txt | sed -u '/^Requirement already/d'
	@mv $@.new $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE) $(TOOLS)
	@echo "Building the extension modules (a minute or two the first time)."
	@$(INSTALL)

.PHONY: help train test test-changed test-timing attack check-experiments bench agreement ncc-report linux-report sanitize wheel wheel-test deb deb-test lint docs docs-serve play build clean
