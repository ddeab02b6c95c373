# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of a simulator as Python sees it; `bind.h` is the same in C++."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.extras import require_extra
from ncc.core.flows import FloatArray, IntArray


class Spec(Protocol):
    """A run as plain numbers: spec.h says what each is."""

    agents: Sequence[int]
    uplinks: Sequence[int]
    mtu_bytes: int
    frame_overhead_bytes: int
    initial_window_pkts: int
    delayed_ack_pkts: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    dup_ack_pkts: int
    handshake: bool
    sack: bool
    limited_transmit: bool
    min_rto_ns: int
    initial_rto_ns: int
    delayed_ack_ns: int
    rtt_noise_max_ns: int
    bucket_bytes: int
    small_queue_bytes: int
    period_ns: int
    latency_ns: int
    transport: str
    params: Sequence[tuple[str, int]]
    order: str
    order_params: list[tuple[str, int]]
    seed: int

    def set_nodes(self, is_host: NDArray[np.uint8]) -> None: ...
    def set_links(
        self, ends: IntArray, rate_bps: FloatArray, delay_ns: IntArray, queues: IntArray, red_max_prob: FloatArray
    ) -> None:
        """Arrays [n, 2], [n], [n], [n, 2, 6] and [n, 2]; after `set_nodes`."""
        ...

    def set_pools(
        self,
        size_bytes: IntArray,
        alpha: FloatArray,
        red_min_bytes: IntArray,
        red_max_bytes: IntArray,
        red_max_prob: FloatArray,
    ) -> None: ...
    def set_flows(self, start_ns: IntArray, src: IntArray, dst: IntArray, size_bytes: IntArray) -> None:
        """After `set_nodes`; raises `ValueError` that names the flow."""
        ...

    def set_limited(self, data: NDArray[np.uint8], acks: NDArray[np.uint8]) -> None:
        """After `set_flows`: of each flow, whether its data and its ACKs are under their host's rate limit."""
        ...


class Network(Protocol):
    """A simulation that has been built."""

    def step(self, limits_bps: FloatArray) -> None: ...
    def measure(
        self, hosts: FloatArray, host_counts: IntArray, uplinks: FloatArray, uplink_counts: IntArray, progress: IntArray
    ) -> None:
        """Fill the arrays of `ncc.envs.native.blocks.Blocks` with the epoch that has ended."""
        ...

    def flow_records(self) -> dict[str, NDArray[np.float64 | np.int64]]: ...
    def port_records(self) -> dict[str, NDArray[np.float64 | np.int64]]: ...
    def drop_packet(self, port: int, nth: int) -> None:
        """Drop the nth data packet to reach a switch port from now on (1: the next)."""
        ...

    def mark_packet(self, port: int, nth: int) -> None:
        """Mark it as congestion experienced."""
        ...

    def sender_window(self, flow: int) -> tuple[int, int, int]:
        """Window, slow-start threshold and bytes acknowledged of a flow; zeros when it is not live."""
        ...

    @property
    def now_ns(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def live_connections(self) -> int: ...


_Spec = Spec
_Network = Network


ParamRow = tuple[str, int, int, int, str]
"""Name, default, least, greatest, help."""


class Extension(Protocol):
    """The module."""

    def Spec(self) -> _Spec: ...  # noqa: N802
    def Network(self, spec: _Spec) -> _Network:  # noqa: N802
        """Build it at time 0; `ValueError`: it cannot be; `RuntimeError`: not now."""
        ...

    def bad_limit(self, limits_bps: FloatArray) -> int:
        """Flat index of the first limit that is not above 0, or -1."""
        ...

    def transports(self) -> list[str]: ...
    def orders(self) -> list[str]: ...
    def params(self, transport: str) -> list[ParamRow]:
        """Name, default, least, greatest, help."""
        ...

    def order_params(self, order: str) -> list[ParamRow]:
        """The same of a flow order."""
        ...


@cache
def load(module: str, extra: str | None = None) -> Extension:
    """An extension module, loaded on first use.

    Args:
        module: its full name.
        extra: the extra that brings the libraries which it is linked with.

    Raises:
        MissingExtraError: the extra is not installed.
        DatapathError: it is not built; the message says how.
    """
    try:
        return cast(Extension, import_module(module))
    except ImportError as error:
        if extra is not None:
            require_extra(extra, f"datapath={extra}")
        raise DatapathError(
            f"The extension {module} cannot be loaded ({error}): run `make build` in a checkout, or reinstall ncc "
            "(with the packages it depends on)."
        ) from error
