# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.host.talking LISTEN TO KEY PERIOD``: neighbours that only talk, for measuring who listens.

They tell of themselves every period what random hosts might, until the end of standard input.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from ncc.core.units import to_ns
from ncc.deployed.exchange import ExchangeSpec, open_exchange
from ncc.deployed.message import read_key
from ncc.deployed.peers import parse_agent
from ncc.deployed.state import STATE
from ncc.envs.linux.periods import Periods, sleep_until


def main(listen: str, to: str, key: str, period: str) -> None:
    """Talk."""
    spec = ExchangeSpec(listen=listen, period_s=float(period), late_s=1.0, peers=(to,))
    exchange, rng = open_exchange(spec, read_key(Path(key))), np.random.default_rng(1)
    state = np.zeros(len(parse_agent(listen)), STATE)
    periods = Periods(to_ns(float(period)))
    periods.start_ns = time.monotonic_ns()
    os.set_blocking(sys.stdin.fileno(), False)
    while os_reads(sys.stdin.fileno()) is None:
        sleep_until(periods.next_end_ns())
        busy = rng.random(len(state)) < 0.5
        state["queued_flows"] = busy
        for name in ("queued_bytes", "next_bytes"):
            state[name] = np.where(busy, 1e5, 0.0)
        state["throughput_bps"], state["rate_limit_bps"] = 1e7 * rng.random(len(state)), 2e7
        exchange.send(state, time.monotonic_ns())
    exchange.close()


def os_reads(descriptor: int) -> bytes | None:
    """What there is to read; None: nothing yet."""
    try:
        return os.read(descriptor, 1)
    except BlockingIOError:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
