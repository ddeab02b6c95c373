# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's spaces and values as ns3-gym's messages, and back.

The protocol has Discrete, Box, Tuple and Dict. A box has one lower and one upper bound for all its numbers, and these
are of 32 bits, as are its integers, whatever ns-3 calls their type. ``MultiDiscrete`` and ``MultiBinary`` travel as
Tuples of Discrete.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.schema import PACKAGE, TYPE_URL, library, messages

Space = spaces.Space[Any]
DTYPES: dict[str, type[np.generic]] = {"INT": np.int32, "UINT": np.uint32, "FLOAT": np.float32, "DOUBLE": np.float64}
FIELDS = {"INT": "intData", "UINT": "uintData", "FLOAT": "floatData", "DOUBLE": "doubleData"}
_KINDS = {"i": "INT", "u": "UINT", "f": "FLOAT"}
_LARGEST = float(np.finfo(np.float32).max)


def wire_space(space: Space) -> Space:
    """The space as the protocol can say it: equal, or a Tuple of Discrete for MultiDiscrete and MultiBinary.

    Raises:
        ConfigError: a space that the protocol does not have.
    """
    if isinstance(space, spaces.MultiDiscrete) and not space.start.any():
        return spaces.Tuple([spaces.Discrete(int(n)) for n in space.nvec.ravel()])
    if isinstance(space, spaces.MultiBinary):
        return spaces.Tuple([spaces.Discrete(2) for _ in range(int(np.prod(space.shape)))])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([wire_space(part) for part in space.spaces])
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: wire_space(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return space
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in _KINDS:
        return space
    raise ConfigError(
        f"ns3-gym's protocol has no {space}: offer a Discrete from 0, a Box of numbers, or a Tuple or Dict of these"
    )


def describe(space: Space, name: str = "") -> Any:
    """A `SpaceDescription` of a space that `wire_space` returned."""
    pb = messages()
    description = pb.SpaceDescription(name=name)
    if isinstance(space, spaces.Discrete):
        description.type, inner = pb.Discrete, pb.DiscreteSpace(n=int(space.n))
    elif isinstance(space, spaces.Box):
        dtype = getattr(pb, _KINDS[cast("np.dtype[Any]", space.dtype).kind])
        if space.dtype == np.float64:
            dtype = pb.DOUBLE
        low, high = (float(np.clip(bound, -_LARGEST, _LARGEST)) for bound in (space.low.min(), space.high.max()))
        description.type, inner = pb.Box, pb.BoxSpace(low=low, high=high, dtype=dtype, shape=space.shape)
    elif isinstance(space, spaces.Tuple):
        description.type, inner = pb.Tuple, pb.TupleSpace(element=[describe(part) for part in space.spaces])
    else:
        parts = cast(spaces.Dict, space).spaces
        description.type = pb.Dict
        inner = pb.DictSpace(element=[describe(part, key) for key, part in parts.items()])
    return _packed(description, "space", inner)


def space_of(description: Any, where: str) -> Space:
    """The space that a `SpaceDescription` describes.

    Bounds that are equal, as ns-3 sends where a script has bounds of its own for each number, are taken for none.

    Raises:
        DatapathError: it describes none; `where` says whose it is.
    """
    pb = messages()
    if description.type == pb.Discrete:
        n = _unpacked(description.space, "DiscreteSpace", where).n
        if n < 1:
            raise DatapathError(f"the {where} is Discrete with {n} values, and must have at least 1")
        return spaces.Discrete(n)
    if description.type == pb.Box:
        return _box(_unpacked(description.space, "BoxSpace", where), where)
    if description.type == pb.Tuple:
        parts = _unpacked(description.space, "TupleSpace", where).element
        return spaces.Tuple([space_of(part, f"{where}[{index}]") for index, part in enumerate(parts)])
    if description.type == pb.Dict:
        parts = _unpacked(description.space, "DictSpace", where).element
        return spaces.Dict({part.name: space_of(part, f"{where}[{part.name!r}]") for part in parts})
    raise DatapathError(f"the {where} is missing: the simulation must describe it when it connects")


def _box(box: Any, where: str) -> Space:
    pb = messages()
    dtype = np.dtype(DTYPES[next((name for name in DTYPES if getattr(pb, name) == box.dtype), "FLOAT")])
    low, high = float(box.low), float(box.high)
    if not low < high:
        low, high = -np.inf, np.inf
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        low, high = max(low, limits.min), min(high, limits.max)
        if not low < high:
            raise DatapathError(f"the {where} has bounds {box.low:g} to {box.high:g}, which hold no two {dtype} values")
    return spaces.Box(dtype.type(low), dtype.type(high), tuple(box.shape), dtype.type)


def packer(space: Space) -> Callable[[Any], Any]:
    """What makes a `DataContainer` of a value of that space; the value is not looked at twice.

    Numbers of a Box are sent as ns3-gym's own Python side sends them: of 64 bits as of 32 as `FLOAT`, for scripts cast
    them to that.
    """
    pb = messages()
    if isinstance(space, spaces.Discrete):
        return lambda value: _packed(
            pb.DataContainer(type=pb.Discrete), "data", pb.DiscreteDataContainer(data=int(value))
        )
    if isinstance(space, spaces.Box):
        name, shape = _KINDS[cast("np.dtype[Any]", space.dtype).kind], space.shape
        dtype, field, kind = getattr(pb, name), FIELDS[name], DTYPES[name]

        def pack_box(value: Any) -> Any:
            box = pb.BoxDataContainer(dtype=dtype, shape=shape)
            getattr(box, field).extend(np.asarray(value, kind).ravel().tolist())
            return _packed(pb.DataContainer(type=pb.Box), "data", box)

        return pack_box
    if isinstance(space, spaces.Tuple):
        parts = [packer(part) for part in space.spaces]
        return lambda values: _packed(
            pb.DataContainer(type=pb.Tuple),
            "data",
            pb.TupleDataContainer(element=[pack(value) for pack, value in zip(parts, values, strict=True)]),
        )
    named = {key: packer(part) for key, part in cast(spaces.Dict, space).spaces.items()}

    def pack_dict(values: Any) -> Any:
        inner = pb.DictDataContainer()
        for key, pack in named.items():
            container = pack(values[key])
            container.name = key
            inner.element.append(container)
        return _packed(pb.DataContainer(type=pb.Dict), "data", inner)

    return pack_dict


def value_of(container: Any, space: Space, where: str) -> Any:
    """The value in a `DataContainer`, in the space's shape and dtype: int, array, tuple or dict.

    Values outside a Box's bounds are let through: scripts state bounds loosely.

    Raises:
        DatapathError: it holds something else; `where` says whose it is.
    """
    pb = messages()
    if isinstance(space, spaces.Discrete):
        _require(container, pb.Discrete, "Discrete", where)
        value = _unpacked(container.data, "DiscreteDataContainer", where).data
        if not 0 <= value < space.n:
            raise DatapathError(f"the {where} must be from 0 to {int(space.n) - 1}, got {value}")
        return int(value)
    if isinstance(space, spaces.Box):
        _require(container, pb.Box, "Box", where)
        box = _unpacked(container.data, "BoxDataContainer", where)
        field = next((FIELDS[name] for name in FIELDS if getattr(pb, name) == box.dtype), "floatData")
        numbers, count = getattr(box, field), int(np.prod(space.shape))
        if len(numbers) != count:
            raise DatapathError(f"the {where} must have {count} numbers, as its space says, got {len(numbers)}")
        return np.array(numbers).astype(cast("np.dtype[Any]", space.dtype)).reshape(space.shape)
    if isinstance(space, spaces.Tuple):
        _require(container, pb.Tuple, "Tuple", where)
        parts = _unpacked(container.data, "TupleDataContainer", where).element
        if len(parts) != len(space.spaces):
            raise DatapathError(f"the {where} must have {len(space.spaces)} parts, got {len(parts)}")
        return tuple(
            value_of(part, inner, f"{where}[{index}]")
            for index, (part, inner) in enumerate(zip(parts, space.spaces, strict=True))
        )
    _require(container, pb.Dict, "Dict", where)
    inner_spaces = cast(spaces.Dict, space).spaces
    found = {part.name: part for part in _unpacked(container.data, "DictDataContainer", where).element}
    if set(found) != set(inner_spaces):
        wanted, got = (", ".join(sorted(names)) or "none" for names in (inner_spaces, found))
        raise DatapathError(f"the {where} must have the parts {wanted}, got {got}")
    return {key: value_of(found[key], part, f"{where}[{key!r}]") for key, part in inner_spaces.items()}


def _require(container: Any, kind: int, name: str, where: str) -> None:
    if container.type != kind:
        sent = ("nothing", "Discrete", "Box", "Tuple", "Dict")
        got = sent[container.type] if container.type < len(sent) else f"type {container.type}"
        raise DatapathError(f"the {where} must be of type {name}, as its space says, got {got}")


def _packed(outer: Any, field: str, inner: Any) -> Any:
    packed = getattr(outer, field)
    packed.type_url, packed.value = TYPE_URL + inner.DESCRIPTOR.name, inner.SerializeToString()
    return outer


@cache
def _decode_error() -> type[Exception]:
    error: type[Exception] = library("google.protobuf.message").DecodeError
    return error


def parse(name: str, data: bytes, what: str) -> Any:
    """A message of that name from the wire.

    Raises:
        DatapathError: these bytes are none; `what` says what was to come.
    """
    message = getattr(messages(), name)()
    try:
        message.ParseFromString(data)
    except _decode_error():
        raise DatapathError(
            f"{what} must be a {name} of ns3-gym's protocol, got {len(data)} bytes of another kind"
        ) from None
    return message


def _unpacked(packed: Any, name: str, where: str) -> Any:
    if packed.type_url.rpartition("/")[2] != f"{PACKAGE}.{name}":
        raise DatapathError(f"the {where} must hold a {name}, got {packed.type_url or 'nothing'}")
    return parse(name, packed.value, f"the {where}")
