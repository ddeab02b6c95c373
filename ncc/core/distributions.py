# SPDX-License-Identifier: BSD-3-Clause
"""Flow-size distributions as empirical CDFs, each with the paper it comes from.

A table lists (size in bytes, cumulative probability); sizes between two points are uniform (linear interpolation).
"""

from itertools import pairwise
from typing import Annotated

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.value import Fraction, Value

Bytes = Annotated[float, Meta(ge=0, le=2**53)]


class SizeDistribution(Value, frozen=True):
    """A piecewise-linear CDF of flow sizes.

    `points` are (size in bytes, share of the flows up to this size). Neither column may fall, and the last share is 1.
    If the first share is above 0, that share of the flows has exactly the first size.
    """

    name: Annotated[str, Meta(min_length=1)]
    points: Annotated[tuple[tuple[Bytes, Fraction], ...], Meta(min_length=2)]
    source: str = ""

    @classmethod
    def of(cls, sizes: IntArray) -> "SizeDistribution":
        """Make the distribution of given sizes in bytes, [n] with n >= 1, each of which has the share 1/n."""
        found, counts = np.unique(sizes, return_counts=True)
        upto = np.repeat(np.append(0, np.cumsum(counts)) / counts.sum(), 2)[1:-1]
        return cls(name="observed", points=tuple(zip(np.repeat(found, 2).tolist(), upto.tolist(), strict=True)))

    def check(self) -> None:
        for i, (left, right) in enumerate(pairwise(self.points), start=1):
            if right[0] < left[0] or right[1] < left[1]:
                raise ConfigError(f"SizeDistribution.points[{i}]: neither column may fall, got {right} after {left}")
        size, cumulative = self.points[-1]
        if cumulative != 1 or size < 1:
            raise ConfigError(
                f"SizeDistribution.points must end with a size of at least 1 byte and a probability of 1, got "
                f"{self.points[-1]}"
            )

    @property
    def mean_bytes(self) -> float:
        """Mean size in bytes: each segment contributes its probability times its midpoint."""
        size, cumulative = self.columns
        return float(np.sum(np.diff(cumulative) * (size[1:] + size[:-1]) / 2))

    def sample(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw `n` sizes in bytes, each at least 1, by inversion of the CDF."""
        size, cumulative = self.columns
        drawn = np.interp(rng.random(n), cumulative, size)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)

    @property
    def columns(self) -> tuple[FloatArray, FloatArray]:
        """Sizes in bytes and the share of flows up to each, from 0 to 1; where a size repeats, the share jumps."""
        size, cumulative = self.points[0]
        table = np.asarray([*([(size, 0.0)] if cumulative else []), *self.points], dtype=np.float64)
        return table[:, 0], table[:, 1]


def _table(text: str) -> tuple[tuple[int, float], ...]:
    pairs = (point.split(":") for point in text.split())
    return tuple((int(size), float(probability)) for size, probability in pairs)


_ALL = (
    SizeDistribution(
        name="websearch",
        source="Alizadeh et al., DCTCP, SIGCOMM 2010: cluster running web search",
        points=_table(
            """
            0:0 10000:0.15 20000:0.2 30000:0.3 50000:0.4 80000:0.53 200000:0.6 1000000:0.7 2000000:0.8
            5000000:0.9 10000000:0.97 30000000:1
            """
        ),
    ),
    SizeDistribution(
        name="datamining",
        source="Greenberg et al., VL2, SIGCOMM 2009 (tables in circulation differ; this is the VL2 one)",
        points=_table(
            """
            0:0 180:0.1 216:0.2 560:0.3 900:0.4 1100:0.5 1870:0.6 3160:0.7 10000:0.8 400000:0.9 3160000:0.95
            100000000:0.98 1000000000:1
            """
        ),
    ),
    SizeDistribution(
        name="hadoop",
        source="Roy et al., SIGCOMM 2015, Facebook Hadoop, as used by HPCC, SIGCOMM 2019",
        points=_table(
            """
            0:0 100:0.01 200:0.02 300:0.05 350:0.15 400:0.2 500:0.3 600:0.4 700:0.5 1000:0.6 2000:0.67
            7000:0.7 30000:0.72 50000:0.82 80000:0.87 120000:0.9 300000:0.95 1000000:0.975 2000000:0.99
            10000000:1
            """
        ),
    ),
    SizeDistribution(
        name="cachefollower",
        source="Roy et al., SIGCOMM 2015, Fig. 6, Facebook cache follower, as digitised for Parsimon, NSDI 2023",
        points=_table(
            """
            0:0 51:0.00369295 71:0.0055897 76:0.0287715 133:0.031611 183:0.0451042 271:0.0547249
            321:0.0711322 349:0.160979 436:0.176414 484:0.245968 561:0.271074 651:0.275889 731:0.311626
            913:0.32996 1037:0.335743 1323:0.360839 2421:0.395558 3779:0.419666 6155:0.438938 11629:0.466891
            18938:0.490994 31169:0.517029 46628:0.542108 73544:0.57491 113561:0.608681 173480:0.649216
            233326:0.690731 304021:0.725486 431276:0.754435 694981:0.774674 1120120:0.785252
            1640451:0.811299 1984136:0.855724 2300215:0.897254 2610206:0.948449 2900867:0.978389
            4386575:0.994771 12540802:0.997559 28388498:1
            """
        ),
    ),
    SizeDistribution(
        name="webserver",
        source="Roy et al., SIGCOMM 2015, Fig. 6, Facebook web server, as digitised for Parsimon, NSDI 2023",
        points=_table(
            """
            0:0 64:0.00250551 81:0.00858249 143:0.0115703 151:0.0868184 163:0.0969792 221:0.0999967
            282:0.102003 305:0.20369 452:0.218901 611:0.272766 782:0.31545 1023:0.3622 1237:0.416078
            1323:0.459799 1530:0.519783 1871:0.569591 2140:0.627542 2677:0.672264 3582:0.716977
            5240:0.755579 7330:0.781983 11469:0.812442 17353:0.834769 25673:0.862183 38843:0.882477
            69509:0.904785 101693:0.922031 162713:0.933166 238051:0.95448 329320:0.973766 526926:0.988968
            833721:0.991969 1304462:0.993953 19791390:1
            """
        ),
    ),
)
DISTRIBUTIONS = {table.name: table for table in _ALL}


def distribution(table: str | SizeDistribution) -> SizeDistribution:
    """Return the published distribution of that name; a distribution is returned as it is.

    Raises:
        UnknownNameError: no published distribution has that name; the message lists those that exist.
    """
    if isinstance(table, SizeDistribution):
        return table
    if table not in DISTRIBUTIONS:
        raise UnknownNameError("flow-size distribution", table, DISTRIBUTIONS)
    return DISTRIBUTIONS[table]
