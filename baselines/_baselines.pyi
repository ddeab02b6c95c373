# SPDX-License-Identifier: BSD-3-Clause
"""Extension module of binding.cpp: the table of controllers, a connection, and the decisions of a switch."""

from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

STATE_MAX: int
"""Largest size in bytes of the state of a controller that Linux can run."""
SIM_STATE_MAX: int
"""Largest size of that of any."""
QCN: int
"""Kind of a signal."""
CWND_MAX_BYTES: int
ECE: int
IN_RECOVERY: int
APP_LIMITED: int
RATE_APP_LIMITED: int
ACK: int
LOSS: int
TIMEOUT: int
RESTART: int
PASS: int
MARK: int
TRIM: int
DROP: int
RED_ONE: int
"""Value of `max_prob` that means a probability of 1 in `red`."""
DT_ALPHA_ONE: int
"""Value of `alpha` that means 1 in `dynamic_threshold`."""
DT_ALPHA_MAX: int
DT_SHARED_MAX_BYTES: int

def orders() -> list[tuple[str, str]]:
    """Name and summary of every order of `baselines/orders/`."""

def order_key(
    name: str, params: list[int], *, age_ns: int, waited_ns: int, size_bytes: int, left_bytes: int, delivered_bytes: int
) -> int:
    """The key of a flow: the largest goes first. Raises `ValueError` for an unknown order and impossible flows."""

def log2_q16(x: int) -> int:
    """The logarithm of `flow_order.h`, in units of 2^-16; x from 1 to 2^64 - 1."""

def step_mark(
    *, size_bytes: int, mark_threshold_bytes: int, queue_bytes: int, packet_bytes: int, ecn_capable: bool
) -> int:
    """PASS, MARK or DROP of `step_mark.h`."""

def red(*, min_bytes: int, max_bytes: int, max_prob: int, queue_bytes: int, ecn_capable: bool, random: int) -> int:
    """PASS or MARK of `red.h`; `random` is 32 uniform bits. Raises `ValueError` outside the header's ranges."""

def dynamic_threshold(
    *, private_bytes: int, shared_bytes: int, alpha: int, queue_bytes: int, used_bytes: int, packet_bytes: int
) -> int:
    """PASS or DROP of `dynamic_threshold.h`. Raises `ValueError` outside the header's ranges."""

PROGRAM_STATE_MAX: int
"""Largest size of a program's state at a port in bytes."""
SYN_ACK: int
PAUSE: int
RESUME: int
FIN: int
ECT: int
HAS_WINDOW: int

ParamRow = tuple[str, int, int, int, str]
"""Parameter, default, min, max, help."""

def programs() -> list[tuple[str, str, int, list[ParamRow]]]:
    """Rows (name, summary, state_bytes, parameters) of the programs of ports (`switch.h`)."""

def tags() -> list[tuple[str, str, list[ParamRow]]]:
    """Rows (name, summary, parameters) of `baselines/tags/`."""

def tag(
    name: str, params: list[int], *, offset_bytes: int, payload_bytes: int, size_bytes: int, delivered_bytes: int
) -> tuple[int, int]:
    """Class and rank of a data packet (`flow_tag.h`). Raises `ValueError` for unknown tags and impossible packets."""

class Program:
    """A program at a port, called by hand; `init` has been called. `params` in table order."""

    def __init__(self, name: str, params: list[int], *, size_bytes: int, mtu_bytes: int) -> None: ...
    def enqueue(
        self,
        *,
        queue_bytes: int = 0,
        flow: int = 0,
        flags: int = 0,
        payload_bytes: int = 1460,
        rank: int = 0,
        verdict: int = 0,
        hops: int = 1,
        random: int = 0,
    ) -> tuple[int, int]:
        """Verdict and rank of a packet that arrives."""

    @property
    def signal(self) -> tuple[int, int]:
        """Kind and value of what the last hook has to tell the packet's sender; kind 0: nothing."""

    def reverse(self, *, queue_bytes: int = 0, flow: int = 0, flags: int = 0, window_bytes: int = 0) -> int:
        """The receive window in bytes that a packet comes away with."""

    def route(self, *, now_ns: int, ways: int, flow: int = 0, flags: int = 1, random: int = 0) -> int:
        """The way of `ways` that a packet takes from a switch; raises `ValueError` for a program that chooses none."""

    def timer(self, *, queue_bytes: int) -> int:
        """Time in ns until it is to be called again; 0: never."""

    def dequeue(
        self, *, queue_bytes: int = 0, flags: int = 0, payload_bytes: int = 1460, now_ns: int = 0, queued_ns: int = 0
    ) -> int:
        """Start to transmit a packet; returns the verdict."""

    def ingress(self, *, ingress_bytes: int) -> int:
        """`PAUSE` or `RESUME` of the far end of the link; 0: as it was."""

def table() -> list[tuple[str, str, int, int, int, list[tuple[str, int, int, int, str]]]]:
    """Rows (name, summary, ecn, needs, state_bytes, [(parameter, default, min, max, help)])."""

class Event(TypedDict, total=False):
    """`struct ncc_cc_event` of cc.h; what is left out is 0."""

    now_ns: int
    rtt_ns: int
    min_rtt_ns: int
    srtt_ns: int
    delivered_bytes: int
    acked_bytes: int
    inflight_bytes: int
    una_bytes: int
    nxt_bytes: int
    flags: int
    total_delivered_bytes: int
    prior_delivered_bytes: int
    interval_ns: int
    lost_bytes: int
    idle_rtos: int

class Connection:
    """One connection; all values as in cc.h. Every method returns (cwnd_bytes, ssthresh_bytes, pacing_bytes_per_s)."""

    def __init__(
        self, name: str, mss_bytes: int, init_cwnd_bytes: int, params: list[int], line_bytes_per_s: int = 0
    ) -> None:
        """Runs `init`. `params` in table order; raises `ValueError` on a wrong name, count or range."""

    def init(self) -> tuple[int, int, int]: ...
    def on_ack(self, **event: Unpack[Event]) -> tuple[int, int, int]: ...
    def on_loss(self, **event: Unpack[Event]) -> tuple[int, int, int]: ...
    def on_timeout(self, **event: Unpack[Event]) -> tuple[int, int, int]: ...
    def on_restart(self, **event: Unpack[Event]) -> tuple[int, int, int]: ...
    def on_signal(self, kind: int, value: int, now_ns: int = 0, srtt_ns: int = 0) -> tuple[int, int, int]:
        """A switch's word; raises `ValueError` where the controller has no such handler, as the next one does."""

    def on_timer(self, now_ns: int) -> tuple[int, int, int]: ...
    @property
    def timer_ns(self) -> int:
        """Time after which the last handler wants `on_timer`; 0: as it was."""

    def drive(self, kinds: npt.NDArray[np.uint8], events: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Many events at once; returns [n, 3].

        `kinds` [n] are ACK, LOSS, TIMEOUT or RESTART, `events` [n, 10] in the order of cc.h, [n, 14] with the delivery
        rate, or [n, 15] with `idle_rtos` last. Raises `ValueError` for other shapes.
        """

    @property
    def out(self) -> tuple[int, int, int]:
        """Decisions of the last handler."""

    @property
    def state(self) -> bytes:
        """The controller's own struct."""
