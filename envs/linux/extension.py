# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of the Linux datapath as Python sees it; headers.cc and reports.cc are the same in C++.

What is said of headers is compiled in from the same sources as the kernel's programs; nothing here needs privileges.
"""

from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.envs.native.extension import ParamRow

REPORT_FIELDS = (
    "seq",
    "state",
    "generation",
    "flow",
    "delivered_bytes",
    "sent_bytes",
    "retrans_bytes",
    "rtt_sum_ns",
    "rtt_samples",
)
"""Of `layout.REPORT`, whose offsets `collect` takes."""
HOST_SUMS = (
    "goodput_bytes",
    "rtt_sum_s",
    "rtt_samples",
    "wait_s",
    "queued_bytes",
    "next_bytes",
    "queued_flows",
    "active_flows",
    "active_per_byte",
    "active_left",
)
"""Rows of what `measure` fills."""


class Flows(Protocol):
    """Arrays [n_flows] of all flows of a run, which the module reads and writes."""


class Before(Protocol):
    """The same as they were when the last period ended."""


class Extension(Protocol):
    """The module. Unknown names, and arrays that do not fit each other, raise `ValueError`."""

    def transports(self) -> list[str]: ...
    def params(self, transport: str) -> list[ParamRow]: ...
    def ecn(self, transport: str) -> int:
        """`enum ncc_cc_ecn` of cc.h."""
        ...

    def orders(self) -> list[str]:
        """``fifo``, which has no keys, and those of `baselines/orders/`."""
        ...

    def order_params(self, order: str) -> list[ParamRow]: ...
    def order_depth(self, order: str, params: list[tuple[str, int]]) -> int:
        """How many flows are put in order, those longest in the queue; 0: all."""
        ...

    def order_keys(
        self,
        order: str,
        params: list[tuple[str, int]],
        *,
        age_ns: IntArray,
        waited_ns: IntArray,
        size_bytes: IntArray,
        left_bytes: IntArray,
        delivered_bytes: IntArray,
        keys: NDArray[Any],
    ) -> None:
        """Fill `keys` (uint64): the largest goes first. All have shape [n_flows]; `flow_order.h` says what each is."""
        ...

    def Flows(  # noqa: N802
        self,
        size_bytes: IntArray,
        delivered_bytes: IntArray,
        left_bytes: IntArray,
        rtt_sum_s: FloatArray,
        rtt_samples: IntArray,
    ) -> Any: ...
    def Before(  # noqa: N802
        self,
        delivered_bytes: IntArray,
        left_bytes: IntArray,
        rtt_sum_s: FloatArray,
        rtt_samples: IntArray,
        last_left_s: FloatArray,
    ) -> Any: ...
    def collect(
        self,
        *,
        reports: NDArray[Any],
        fields: list[int],
        ended_state: int,
        flows: Any,
        slots: IntArray,
        generations: NDArray[Any],
        rows: IntArray,
    ) -> tuple[int, list[int], int]:
        """Take in all reports in use, of `reports` [n_slots, bytes].

        Fills `slots`, `generations` (uint32) and `rows` (of the flow, -1: of no flow of the run). Returns how many, the
        slots whose connections have ended, and how many reports were passed over this time: whoever reads with
        SCHED_FIFO may have stopped the kernel in the middle of writing one.
        """
        ...

    def measure(
        self,
        *,
        came: IntArray,
        flows: Any,
        before: Any,
        agent: IntArray,
        limited: NDArray[Any],
        finished: NDArray[Any],
        time_s: float,
        sums: FloatArray,
    ) -> int:
        """Fill `sums` [HOST_SUMS, n_agents] from the flows in `came`, and keep at its front those that are left."""
        ...


@cache
def extension() -> Extension:
    """The extension module, loaded on first use.

    Raises:
        DatapathError: it is not built; the message says how.
    """
    try:
        return cast(Extension, import_module("ncc.envs.linux._linux"))
    except ImportError as error:
        raise DatapathError(
            f"The extension ncc.envs.linux._linux cannot be loaded ({error}): run `make build` in a checkout, or "
            "reinstall ncc."
        ) from error
