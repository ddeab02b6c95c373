# SPDX-License-Identifier: BSD-3-Clause
"""BCC's marking thresholds, computed from values that an operator knows (Bai et al., INFOCOM 2020, section IV).

`baselines/bcc.h` is the switch's part: it marks packets by these thresholds.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.topology import Link, Pool, Red
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, US, to_ns
from ncc.core.value import Fraction, Value

ALPHA_ONE = 1024
"""Steps per unit of alpha, which is rounded to whole steps before thresholds are computed."""
LAMBDA_ONE = 1000
"""Steps per unit of lambda, which is rounded in the same way."""


class Bcc(Value, frozen=True):
    """Settings of BCC: each shared pool of a network's switches marks packets, in addition to the marking of ports.

    Each pool has thresholds of its own. In the formulas below N is the number of ports that share the pool, C is the
    rate of the fastest of them, and RTT is `rtt_s`.
    """

    rtt_s: Annotated[float, Meta(gt=0, le=10)]
    """Round-trip time between hosts without queues, in seconds."""
    lambda_bdp: Annotated[float, Meta(ge=0, le=1000)] = 0.72
    """Buffer that a port needs to keep its line busy, as a multiple of C RTT, rounded to 1/1000. The default was
    measured for DCTCP (section II-B)."""
    spread_s: Annotated[float, Meta(gt=0, le=1)] = 8 * US
    """Spread h of the thresholds in seconds (eq. 3): Kmax - Kmin = C N h."""
    max_prob_frac: Fraction = 0.1
    """Marking probability Pmax at Kmax."""

    def red(self, pool: Pool, private_bytes: int, rate_bps: float, ports: int) -> Red:
        """Compute Kmin and Kmax of a pool (eq. 2 and 3).

        Args:
            pool: size and alpha of the pool.
            private_bytes: smallest buffer that a port of the pool has for itself.
            rate_bps: rate C of the fastest port, in bits/s.
            ports: number N of the ports.

        Raises:
            ConfigError: the pool is too small for them.
        """
        rate = round(rate_bps / BITS_PER_BYTE)
        bdp_bytes = rate * to_ns(self.rtt_s) // NS_PER_S
        needed_bytes = bdp_bytes + bdp_bytes * round(self.lambda_bdp * LAMBDA_ONE) // LAMBDA_ONE
        kept_bytes = -(-max(needed_bytes - private_bytes, 0) * ALPHA_ONE // round(pool.alpha * ALPHA_ONE))
        span_bytes = rate * ports * to_ns(self.spread_s) // NS_PER_S
        low, high = pool.size_bytes - kept_bytes - span_bytes, pool.size_bytes - kept_bytes
        if low < 0 or low == high:
            raise ConfigError(
                f"bcc leaves no room in a pool of {pool.size_bytes} bytes that {ports} ports of {rate_bps / 1e9:g} "
                f"Gbit/s share: Kmin would be {low} and Kmax {high}, and 0 <= Kmin < Kmax is needed; choose a larger "
                "shared_buffer_bytes or dt_alpha, or a smaller rtt_s or spread_s"
            )
        return Red(min_bytes=low, max_bytes=high, max_prob_frac=self.max_prob_frac)


def with_bcc(pools: Sequence[Pool], links: Sequence[Link], bcc: Bcc) -> list[Pool]:
    """Give each pool of a network its BCC thresholds.

    Raises:
        ConfigError: a pool is too small.
    """
    rates: dict[int, list[float]] = {}
    private: dict[int, set[int]] = {}
    for link in links:
        for buffer in (link.a_buffer, link.b_buffer):
            if buffer is not None and buffer.pool is not None:
                rates.setdefault(buffer.pool, []).append(link.rate_bps)
                private.setdefault(buffer.pool, set()).add(buffer.size_bytes)
    return [
        pool.replace(red=bcc.red(pool, min(private[i]), max(rates[i]), len(rates[i]))) for i, pool in enumerate(pools)
    ]
