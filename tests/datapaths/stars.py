# SPDX-License-Identifier: BSD-3-Clause
"""A star on which graphs of requests run, for tests that name their flows themselves."""

from typing import Any

from ncc.core.scenario import Scenario, scenario_from_dict
from tests.core.graphs import fan_out

RATE_BPS, DELAY_S = 10e9, 1e-6


def star(senders: int = 4, workload: dict[str, Any] | None = None, **transport: Any) -> Scenario:
    """A star without losses, whose hosts begin to send at their line's rate."""
    ports = {"rate_bps": RATE_BPS, "delay_s": DELAY_S, "buffer_bytes": 10**8, "mark_threshold_bytes": 0}
    plain = {"handshake": False, "initial_window_pkts": 10_000, "recovery": "classic", "delayed_ack_pkts": 1}
    return scenario_from_dict(
        {
            "name": "star",
            "topology": {"kind": "many_to_one", "senders": senders, **ports},
            "duration_s": 1e-3,
            "drain_s": None,
            "workload": {"it": workload or fan_out()},
            "transport": plain | transport,
        }
    )
