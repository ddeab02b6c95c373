# SPDX-License-Identifier: BSD-3-Clause
"""Built from binding.cpp: the controllers' table, and a connection that runs one of them on events."""

import numpy as np
import numpy.typing as npt

STATE_MAX: int
"""Bytes a controller's state may take."""
CWND_MAX_BYTES: int
ECE: int
IN_RECOVERY: int
APP_LIMITED: int
ACK: int
LOSS: int
TIMEOUT: int

def table() -> list[tuple[str, str, int, int, list[tuple[str, int, int, int, str]]]]:
    """Rows (name, summary, ecn, state_bytes, [(parameter, default, min, max, help)])."""

class Connection:
    """One connection; all values as in cc.h. Every method returns (cwnd_bytes, ssthresh_bytes, pacing_bytes_per_s)."""

    def __init__(self, name: str, mss_bytes: int, init_cwnd_bytes: int, params: list[int]) -> None:
        """Runs `init`. `params` in table order; raises `ValueError` on a wrong name, count or range."""

    def init(self) -> tuple[int, int, int]: ...
    def on_ack(
        self,
        *,
        now_ns: int = 0,
        rtt_ns: int = 0,
        min_rtt_ns: int = 0,
        srtt_ns: int = 0,
        delivered_bytes: int = 0,
        acked_bytes: int = 0,
        inflight_bytes: int = 0,
        una_bytes: int = 0,
        nxt_bytes: int = 0,
        flags: int = 0,
    ) -> tuple[int, int, int]: ...
    def on_loss(
        self,
        *,
        now_ns: int = 0,
        rtt_ns: int = 0,
        min_rtt_ns: int = 0,
        srtt_ns: int = 0,
        delivered_bytes: int = 0,
        acked_bytes: int = 0,
        inflight_bytes: int = 0,
        una_bytes: int = 0,
        nxt_bytes: int = 0,
        flags: int = 0,
    ) -> tuple[int, int, int]: ...
    def on_timeout(
        self,
        *,
        now_ns: int = 0,
        rtt_ns: int = 0,
        min_rtt_ns: int = 0,
        srtt_ns: int = 0,
        delivered_bytes: int = 0,
        acked_bytes: int = 0,
        inflight_bytes: int = 0,
        una_bytes: int = 0,
        nxt_bytes: int = 0,
        flags: int = 0,
    ) -> tuple[int, int, int]: ...
    def drive(self, kinds: npt.NDArray[np.uint8], events: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Many events at once: kinds [n] (ACK, LOSS, TIMEOUT), events [n, 10] in the order of cc.h; returns [n, 3]."""

    @property
    def out(self) -> tuple[int, int, int]:
        """What the last handler said."""

    @property
    def state(self) -> bytes:
        """The controller's own struct."""
