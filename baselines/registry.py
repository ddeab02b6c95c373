# SPDX-License-Identifier: BSD-3-Clause
"""The table of controllers: their names, what they do and their parameters, all read from the C headers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cache
from typing import Literal

from ncc.baselines import _baselines
from ncc.core.errors import ConfigError, UnknownNameError

Params = tuple[tuple[str, int], ...]
"""Parameters by name that differ from their defaults."""
Kind = Literal["program of a switch", "tags", "flow order", "front end"]
"""Kinds of C headers, beside controllers, that scenarios and stacks choose by name."""
OWNS_QUEUE: int = _baselines.PROGRAM_OWNS_QUEUE
"""Bits of `program_needs`: the program decides on the packets that wait at its port."""
CHOOSES_NEXT: int = _baselines.PROGRAM_CHOOSES_NEXT
"""Bits of programs that choose the packet that leaves next."""
SYMMETRIC: int = _baselines.PROGRAM_SYMMETRIC
"""Bit of programs that need ACKs to return on the path of their data."""
COUNTS: int = _baselines.PROGRAM_COUNTS
"""Bit of programs that count flows by SYN-ACKs and FINs."""
ROUTES: int = _baselines.PROGRAM_ROUTES
"""Bit of programs that choose among ways of equal length."""
TRIMS: int = _baselines.PROGRAM_TRIMS
"""Bit of programs that may cut the payload off a packet."""
RANKED: int = _baselines.PROGRAM_RANKED
"""Bit of programs whose ports serve by ranks."""
TELEMETRY: int = _baselines.PROGRAM_TELEMETRY
"""Bit of programs that write telemetry into data."""
TAGS: int = _baselines.PROGRAM_TAGS
"""Bit of programs that write tags into packets, for networks of leaves and spines."""
TAG_LEAVES: int = _baselines.TAG_LEAVES
"""Most leaves of a network with such a program."""
TAG_WAYS: int = _baselines.TAG_WAYS
"""Most paths between two leaves there."""
PAUSES: int = _baselines.PROGRAM_PAUSES
"""Bit of programs that may pause the far end of their port's link."""
PAUSE_BYTES: int = _baselines.PAUSE_BYTES
"""Bytes of the IP packet of a pause."""


class Ecn(IntEnum):
    """Use of ECN that a controller asks of the network and the receiver (`enum ncc_cc_ecn` of cc.h).

    NONE: packets are not ECN-capable. CLASSIC: RFC 3168. DCTCP: the receiver echoes each mark (RFC 8257).
    """

    NONE = 0
    CLASSIC = 1
    DCTCP = 2


class Needs(IntFlag):
    """Inputs that a controller needs beyond those that all have (`enum ncc_cc_needs` of cc.h).

    RATE: samples of the delivery rate. SIGNALS: messages of switches. TIMER: a timer. HOPS: telemetry of ports. ECT1:
    data with ECT(1).
    """

    RATE = 1
    SIGNALS = 2
    TIMER = 4
    HOPS = 8
    ECT1 = 16

    @property
    def simulated(self) -> bool:
        """True if the controller needs a timer, telemetry or ECT(1), which only simulators offer."""
        return bool(self & (Needs.TIMER | Needs.HOPS | Needs.ECT1))


class TransportNeeds(IntFlag):
    """Needs of a message transport, which the network must meet (`enum ncc_tp_needs` of transport.h).

    SHAPED: a shaped queue in every port and NIC. SYMMETRIC: control packets take the path of their data in reverse.
    ONE_WAY: packets of a flow do not overtake each other. TRIMS, CLASSES, RANKED, MARKS: functions of ports. TURNS:
    hosts serve their flows in turn.
    """

    SHAPED = 1
    SYMMETRIC = 2
    ONE_WAY = 4
    TRIMS = 8
    CLASSES = 16
    RANKED = 32
    TURNS = 64
    MARKS = 128


@dataclass(frozen=True)
class ParamInfo:
    """A parameter of a controller: an integer in [min, max], in the unit that `help` names."""

    name: str
    default: int
    min: int
    max: int
    help: str


@dataclass(frozen=True)
class ControllerInfo:
    """One controller of the table."""

    name: str
    summary: str
    ecn: Ecn
    needs: Needs
    state_bytes: int
    """Size of its state in each connection."""
    params: tuple[ParamInfo, ...]


@cache
def controllers() -> dict[str, ControllerInfo]:
    """Return all controllers of `baselines/` by name."""
    return {
        name: ControllerInfo(
            name, summary, Ecn(ecn), Needs(needs), state_bytes, tuple(ParamInfo(*row) for row in params)
        )
        for name, summary, ecn, needs, state_bytes, params in _baselines.controllers()
    }


@dataclass(frozen=True)
class TransportInfo:
    """One message transport, whose receivers or both ends decide when packets leave."""

    name: str
    summary: str
    needs: TransportNeeds
    params: tuple[ParamInfo, ...]


@cache
def message_transports() -> dict[str, TransportInfo]:
    """Return all message transports of `baselines/transports/` by name."""
    return {
        name: TransportInfo(name, summary, TransportNeeds(needs), tuple(ParamInfo(*row) for row in params))
        for name, summary, needs, params in _baselines.transports()
    }


@cache
def transport_params() -> dict[str, tuple[ParamInfo, ...]]:
    """Return the parameters of every controller and every message transport, by name."""
    return {name: info.params for table in (controllers(), message_transports()) for name, info in table.items()}


@cache
def named(kind: Kind) -> dict[str, tuple[ParamInfo, ...]]:
    """Return the names of this kind, each with its parameters.

    Tags include `none`, flow orders `fifo`, and front ends `one_all`, which have no header and no parameters.
    """
    rows, own = {
        "program of a switch": (_baselines.programs, ()),
        "tags": (_baselines.tags, ("none",)),
        "flow order": (_baselines.orders, ("fifo",)),
        "front end": (_baselines.fronts, ("one_all",)),
    }[kind]
    return dict.fromkeys(own, ()) | {name: tuple(ParamInfo(*row) for row in params) for name, params in rows()}


@cache
def program_needs() -> dict[str, int]:
    """Return the bits of each program of a switch (`enum ncc_sw_needs` of switch.h), by name."""
    return dict(_baselines.program_needs())


@cache
def kernel_programs() -> tuple[str, ...]:
    """List the programs of switches that ports of the kernel can run."""
    return tuple(name for name, needs in program_needs().items() if not needs & ~_baselines.PROGRAM_KERNEL)


def controller(name: str) -> ControllerInfo:
    """Look up one controller; raises `UnknownNameError` with the names that exist."""
    if name not in controllers():
        raise UnknownNameError("controller", name, controllers())
    return controllers()[name]


def check_params(name: str, params: Mapping[str, object]) -> dict[str, int]:
    """Return the values of all parameters of a controller or message transport, in the order of its header.

    Parameters that are not in `params` have their defaults.

    Raises:
        UnknownNameError: there is neither of this name, or for a reason that `with_defaults` lists.
        ConfigError: for a reason that `with_defaults` lists.
    """
    if name not in transport_params():
        raise UnknownNameError("transport", name, transport_params())
    return with_defaults(name, transport_params()[name], params.items())


def check_named(kind: Kind, name: str, params: Params) -> dict[str, int]:
    """Return all parameters of a header of that kind, as `check_params` does for a controller."""
    if name not in (known := named(kind)):
        raise UnknownNameError(kind, name, known)
    return with_defaults(f"{kind.removesuffix(' of a switch')} {name}", known[name], params)


def with_defaults(whose: str, known: tuple[ParamInfo, ...], given: Iterable[tuple[str, object]]) -> dict[str, int]:
    """Return the values of all `known` parameters in their order: those that are given, and defaults for the others.

    Raises:
        UnknownNameError: a parameter does not exist; the message lists what exists.
        ConfigError: a parameter is given twice, or its value is not an integer in its range.
    """
    params = {param.name: param for param in known}
    values = {param.name: param.default for param in known}
    pairs = list(given)
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if name not in params:
            raise UnknownNameError(f"parameter of {whose}", name, params)
        if names.count(name) > 1:
            raise ConfigError(f"Parameter {name} of {whose} is given {names.count(name)} times: give it once")
        low, high = params[name].min, params[name].max
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(
                f"Parameter {name} of {whose} must be a whole number from {low} to {high} ({params[name].help}), got "
                f"{value!r}"
            )
        values[name] = value
    return values


def connect(
    name: str,
    mss_bytes: int,
    init_cwnd_bytes: int,
    params: Mapping[str, int] | None = None,
    *,
    line_bytes_per_s: int = 0,
) -> _baselines.Connection:
    """Make a connection that controller `name` runs, initialised; the caller then reports events to it.

    It serves tests, recorded curves, and the study of a controller by itself.

    Args:
        name: name of the controller.
        mss_bytes: payload of a full packet, at least 1.
        init_cwnd_bytes: initial window, at least `mss_bytes`.
        params: parameters that differ from their defaults.
        line_bytes_per_s: rate of the host's link; 0: not known.

    Raises:
        ConfigError: see `check_params`.
        ValueError: `mss_bytes` or `init_cwnd_bytes` is too small.
    """
    values = check_params(name, params or {})
    return _baselines.Connection(name, mss_bytes, init_cwnd_bytes, list(values.values()), line_bytes_per_s)
