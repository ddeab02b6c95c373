# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of the Linux datapath as Python sees it; in C++ it is the .cc files beside this one.

What is said of headers is compiled in from the same sources as the kernel's programs; nothing here needs privileges.
"""

from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.envs.linux import layout
from ncc.envs.native.extension import ParamRow

LIVE_COLUMNS = (
    "slot",
    "generation",
    "host",
    "began_ns",
    "last_left_ns",
    "left_bytes",
    "unsent_bytes",
    "delivered_bytes",
)
"""Rows of what it says of each live connection."""


class Flows(Protocol):
    """Arrays [n_flows] of all flows of a run, which the module reads and writes."""


class Before(Protocol):
    """The same as they were when the last period ended."""


class Epochs(Protocol):
    """Signals of hosts and uplinks from one call of `end` to the next."""

    def end(  # noqa: PLR0917 - names take time, every period
        self,
        time_s: float,
        arrivals: bool,
        interval_s: float,
        finished: NDArray[Any],
        ports: IntArray,
        host_reals: FloatArray,
        host_counts: IntArray,
        uplink_reals: FloatArray,
        uplink_counts: IntArray,
    ) -> tuple[int, int, int]:
        """Fill arrays of `ncc.envs.native.blocks.Blocks`; without `arrivals` no flow has come yet.

        Returns how many flows are live, at the front of `live`; how many have arrived; and how many are delivered.
        """
        ...


class Connections(Protocol):
    """Connections of hosts, whoever began them, and their hosts' signals from one call of `measure` to the next."""

    def measure(  # noqa: PLR0917 - as above
        self, used: int, now_ns: int, interval_s: float, rtt_s: FloatArray, reals: FloatArray, counts: IntArray
    ) -> tuple[int, int, list[int], int]:
        """Fill rows [signals of hosts, n_hosts], of real numbers and of counts, from the first `used` reports.

        `rtt_s` [n_hosts] is what a host without a sample is taken to have; a new mean is written there.

        Returns how many connections have reported anew; how many are live, at the front of the columns; the slots of
        those that have ended; and how many reports were passed over, as `collect` does.
        """
        ...


class Decider(Protocol):
    """A policy and all that it is fed with, of one scenario's hosts (decide.py)."""

    obs: NDArray[Any]
    """[n_agents, obs_dim] float32, as of the last `decide`; a copy, as are `logits` [n_agents, n_actions]."""
    logits: NDArray[Any]

    def among(self, begin: int, end: int) -> None:
        """Decide for hosts `begin` to `end` - 1 only from now on."""
        ...

    def decide(  # noqa: PLR0917 - as above
        self,
        rate_limit: FloatArray,
        goodput: FloatArray,
        throughput: FloatArray,
        rtt: FloatArray,
        wait: FloatArray,
        queued: FloatArray,
        next: FloatArray,  # noqa: A002
        flows: IntArray,
        upper_throughput: FloatArray,
        upper_queue: FloatArray,
        limits: FloatArray,
    ) -> bool:
        """Fill `limits` [n_agents] from a measurement's columns of these names; false: a number is not finite."""
        ...


class Steering(Protocol):
    """Rates of hosts in the memory of a map (limits.py)."""

    def steer(
        self, limits: FloatArray, decided: bool, interval_s: float, sent_bps: FloatArray, waiting_bytes: FloatArray
    ) -> None:
        """See `ncc.envs.linux.limits.Limits.put`."""
        ...


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

    def Decider(self, **tables: Any) -> Decider: ...  # noqa: N802
    def Steering(  # noqa: N802
        self,
        *,
        hosts: NDArray[Any],
        rate_at: int,
        decision_at: int,
        n: int,
        most: float,
        horizon_s: float,
        memory_s: float,
        below: float,
        trim_frac: float,
    ) -> Steering:
        """Of the first `n` rows of `hosts` [n_rows, bytes], in which rate and decision lie at these offsets."""
        ...

    def rank_weights(  # noqa: PLR0917 - as above
        self,
        agent: IntArray,
        keys: NDArray[Any],
        rows: IntArray,
        depth: int,
        first: int,
        step: int,
        least: int,
        weights: IntArray,
    ) -> None:
        """Fill `weights` as `ncc.envs.linux.order.by_rank` says; all arrays have shape [n]."""
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
    def Reports(self, *, rows: NDArray[Any], offsets: dict[str, int], live: int, ended: int) -> Any:  # noqa: N802
        """Reports of connections [n_slots, bytes], with fields at these offsets and these values of `state`."""
        ...

    def collect(
        self,
        *,
        reports: Any,
        used: int,
        flows: Any,
        slots: IntArray,
        generations: NDArray[Any],
        rows: IntArray,
    ) -> tuple[int, list[int], int]:
        """Take in all reports in use, of the first `used`.

        Fills `slots`, `generations` (uint32) and `rows` (of the flow, -1: of no flow of the run). Returns how many, the
        slots whose connections have ended, and how many reports were passed over this time: whoever reads with
        SCHED_FIFO may have stopped the kernel in the middle of writing one.
        """
        ...

    def Connections(  # noqa: N802
        self, *, reports: Any, n_hosts: int, columns: IntArray
    ) -> Connections:
        """Of hosts 0 to `n_hosts` - 1; `columns` [`LIVE_COLUMNS`, n_slots] is written."""
        ...

    def Epochs(  # noqa: N802
        self,
        *,
        flows: Any,
        before: Any,
        start_s: FloatArray,
        agent: IntArray,
        limited: NDArray[Any],
        rtt_s: FloatArray,
        host_ports: IntArray,
        uplinks: IntArray,
        ports: IntArray,
        live: IntArray,
    ) -> Epochs:
        """All of one run. `live` [n_flows] and `rtt_s` [n_agents] are written; `agent` may be n_agents: of none."""
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


def reports_of(rows: NDArray[Any]) -> Any:
    """The reports in rows [n_slots] of `layout.REPORT`, as `collect` and `Connections` read them."""
    return extension().Reports(
        rows=rows.view(np.uint8).reshape(len(rows), rows.itemsize),
        offsets={name: int(field[1]) for name, field in (layout.REPORT.fields or {}).items()},
        live=layout.LIVE,
        ended=layout.FINISHED,
    )
