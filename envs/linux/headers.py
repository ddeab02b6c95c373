# SPDX-License-Identifier: BSD-3-Clause
"""The headers of `baselines/` as user space of the Linux datapath sees them: names, parameters, keys of flow orders.

What is said of them is compiled in from the same sources as the kernel's programs; nothing here needs privileges.
"""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from numpy.typing import NDArray

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import IntArray

ParamRow = tuple[str, int, int, int, str]
"""Name, default, least, greatest, help."""
Params = tuple[tuple[str, int], ...]


class Headers(Protocol):
    """The extension module; `headers.cc` is the same in C++. Unknown names raise `ValueError`."""

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
        keys: NDArray,  # type: ignore[type-arg]
    ) -> None:
        """Fill `keys` (uint64): the largest goes first. All have shape [n_flows]; `flow_order.h` says what each is."""
        ...


@cache
def headers() -> Headers:
    """The extension module, loaded on first use.

    Raises:
        DatapathError: it is not built; the message says how.
    """
    try:
        return cast(Headers, import_module("ncc.envs.linux._headers"))
    except ImportError as error:
        raise DatapathError(
            f"The extension ncc.envs.linux._headers cannot be loaded ({error}): run `make build` in a checkout, or "
            "reinstall ncc."
        ) from error


def check_params(whose: str, rows: list[ParamRow], given: Params) -> None:
    """Raise `UnknownNameError` or `ConfigError` unless every parameter exists, once, and is in its range."""
    ranges = {name: (low, high) for name, _, low, high, _ in rows}
    names = [name for name, _ in given]
    if twice := [name for name in ranges if names.count(name) > 1]:
        raise ConfigError(f"Parameter {twice[0]} of {whose} is given {names.count(twice[0])} times: give it once")
    for name, value in given:
        if name not in ranges:
            raise UnknownNameError(f"parameter of {whose}", name, ranges)
        low, high = ranges[name]
        if not low <= value <= high:
            raise ConfigError(f"Parameter {name} of {whose} must be from {low} to {high}, got {value}")
