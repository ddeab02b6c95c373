# SPDX-License-Identifier: BSD-3-Clause
"""Conversion of Gymnasium's spaces and values to ns3-gym's messages, and back.

The protocol has Discrete, Box, Tuple and Dict. A Box has one lower and one upper bound for all its numbers. The bounds
have 32 bits, as have its integers, whatever ns-3 calls their type. ``MultiDiscrete`` and ``MultiBinary`` are sent as
Tuples of Discrete.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.schema import PACKAGE, TYPE_URL, library, messages

Space = spaces.Space[Any]
DTYPES: dict[str, type[np.generic]] = {"INT": np.int32, "UINT": np.uint32, "FLOAT": np.float32, "DOUBLE": np.float64}
FIELDS = {"INT": "intData", "UINT": "uintData", "FLOAT": "floatData", "DOUBLE": "doubleData"}
_KINDS = {"i": "INT", "u": "UINT", "f": "FLOAT"}
_LARGEST = float(np.finfo(np.float32).max)
NUMBERS_MAX = 10_000_000
"""Most numbers of a Box, which makes 40 MB per message."""
_INT32_MAX = 2**31 - 1

LetThrough = Callable[[str], None]
"""Function that is called with a sentence about each tolerated value that its space does not contain."""


class Incomplete(DatapathError):  # noqa: N818 - names an event
    """Error: a container holds less than its space says, or nothing."""


def wire_space(space: Space) -> Space:
    """Return a space that the protocol has: the same, or a Tuple of Discrete for MultiDiscrete and MultiBinary."""
    if isinstance(space, spaces.MultiDiscrete) and not space.start.any():
        return spaces.Tuple([wire_space(spaces.Discrete(int(n))) for n in space.nvec.ravel()])
    if isinstance(space, spaces.MultiBinary):
        return spaces.Tuple([spaces.Discrete(2) for _ in range(int(np.prod(space.shape)))])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([wire_space(part) for part in space.spaces])
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: wire_space(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Discrete) and space.start == 0:
        if int(space.n) > _INT32_MAX:
            raise ConfigError(f"ns3-gym's protocol has Discrete of up to {_INT32_MAX} values, got {int(space.n)}")
        return space
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in _KINDS:
        return space
    raise ConfigError(
        f"ns3-gym's protocol has no {space}: offer a Discrete from 0, a Box of numbers, or a Tuple or Dict of these"
    )


def describe(space: Space, name: str = "") -> Any:
    """Make a `SpaceDescription` of a space that `wire_space` returned."""
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
    """Return the space that a `SpaceDescription` describes.

    Equal bounds, which ns-3 sends if a script has separate bounds for each number, count as no bounds.
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
    if (count := math.prod(box.shape)) > NUMBERS_MAX:
        raise DatapathError(f"the {where} is a Box of {count} numbers, and {NUMBERS_MAX} are the most that is taken")
    return spaces.Box(dtype.type(low), dtype.type(high), tuple(box.shape), dtype.type)


def packer(space: Space) -> Callable[[Any], Any]:
    """Return a function that makes a `DataContainer` of a value of that space, also of one beyond its bounds.

    Numbers of a Box are sent as by ns3-gym's own Python side: floats of 32 and 64 bits both as `FLOAT`, because scripts
    cast them to that. The function raises `ConfigError` for a value that the space's type and size cannot hold.
    """
    pack = _packer(space)

    def checked(value: Any) -> Any:
        try:
            return pack(value)
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            raise ConfigError(f"{value!r} is not a value of {space} ({error})") from None

    return checked


def _packer(space: Space) -> Callable[[Any], Any]:
    pb = messages()
    if isinstance(space, spaces.Discrete):
        return lambda value: _packed(
            pb.DataContainer(type=pb.Discrete), "data", pb.DiscreteDataContainer(data=int(value))
        )
    if isinstance(space, spaces.Box):
        name, shape = _KINDS[cast("np.dtype[Any]", space.dtype).kind], space.shape
        dtype, field, dtype_there = getattr(pb, name), FIELDS[name], np.dtype(DTYPES[name])
        count = math.prod(shape)

        def pack_box(value: Any) -> Any:
            box = pb.BoxDataContainer(dtype=dtype, shape=shape)
            numbers = np.asarray(value)
            if numbers.size != count:
                raise ValueError(f"it has {numbers.size} numbers instead of {count}")
            getattr(box, field).extend(_cast(numbers, dtype_there).ravel().tolist())
            return _packed(pb.DataContainer(type=pb.Box), "data", box)

        return pack_box
    if isinstance(space, spaces.Tuple):
        parts = [_packer(part) for part in space.spaces]
        return lambda values: _packed(
            pb.DataContainer(type=pb.Tuple),
            "data",
            pb.TupleDataContainer(element=[pack(value) for pack, value in zip(parts, values, strict=True)]),
        )
    named = {key: _packer(part) for key, part in cast(spaces.Dict, space).spaces.items()}

    def pack_dict(values: Any) -> Any:
        inner = pb.DictDataContainer()
        for key, pack in named.items():
            container = pack(values[key])
            container.name = key
            inner.element.append(container)
        return _packed(pb.DataContainer(type=pb.Dict), "data", inner)

    return pack_dict


def value_of(container: Any, space: Space, where: str, let_through: LetThrough | None = None) -> Any:
    """Return the value in a `DataContainer`, in the space's shape and dtype: int, array, tuple or dict.

    Values outside a Box's bounds are accepted, because scripts state bounds loosely. A Box of floats rounds any number
    to its dtype; a Box of whole numbers accepts only those.

    Args:
        container: the message.
        space: space of the value.
        where: name of the value in errors.
        let_through: called with what is tolerated because ns3-gym's own agents tolerate it: a Discrete beyond its
            values, and a Tuple in place of a Dict, taken by position. None: these are errors.

    Raises:
        Incomplete: the container holds less than the space says.
        DatapathError: the container holds something else.
    """
    pb = messages()
    if isinstance(space, spaces.Discrete):
        _require(container, pb.Discrete, "Discrete", where)
        value = _unpacked(container.data, "DiscreteDataContainer", where).data
        if not 0 <= value < space.n:
            if let_through is None:
                raise DatapathError(f"the {where} must be from 0 to {int(space.n) - 1}, got {value}")
            let_through(f"the {where} is from 0 to {int(space.n) - 1} by its space, and others come as well")
        return int(value)
    if isinstance(space, spaces.Box):
        _require(container, pb.Box, "Box", where)
        box = _unpacked(container.data, "BoxDataContainer", where)
        field = next((FIELDS[name] for name in FIELDS if getattr(pb, name) == box.dtype), "floatData")
        numbers, count = getattr(box, field), math.prod(space.shape)
        if len(numbers) != count:
            kind = Incomplete if len(numbers) < count else DatapathError
            raise kind(f"the {where} must have {count} numbers, as its space says, got {len(numbers)}")
        dtype = cast("np.dtype[Any]", space.dtype)
        try:
            return _cast(np.array(numbers), dtype).reshape(space.shape)
        except ValueError as error:
            raise DatapathError(
                f"the {where} is of {dtype} by its space, and came as {field} with what that cannot hold ({error}): "
                "give the script's space the type of its container"
            ) from None
    if isinstance(space, spaces.Tuple):
        _require(container, pb.Tuple, "Tuple", where)
        parts = _unpacked(container.data, "TupleDataContainer", where).element
        if len(parts) != len(space.spaces):
            short = len(parts) < len(space.spaces)
            kind = Incomplete if short else DatapathError
            raise kind(f"the {where} must have {len(space.spaces)} parts, got {len(parts)}")
        return tuple(
            value_of(part, inner, f"{where}[{index}]", let_through)
            for index, (part, inner) in enumerate(zip(parts, space.spaces, strict=True))
        )
    inner_spaces = cast(spaces.Dict, space).spaces
    if container.type == pb.Tuple and let_through is not None:
        # ns-3 keeps a Dict's parts in the order of their names, as Gymnasium does.
        let_through(f"the {where} is a Dict by its space, and came as a Tuple: its parts are taken by position")
        values = value_of(container, spaces.Tuple(list(inner_spaces.values())), where, let_through)
        return dict(zip(inner_spaces, values, strict=True))
    _require(container, pb.Dict, "Dict", where)
    found = {part.name: part for part in _unpacked(container.data, "DictDataContainer", where).element}
    if set(found) != set(inner_spaces):
        wanted, got = (", ".join(sorted(names)) or "none" for names in (inner_spaces, found))
        kind = Incomplete if set(found) < set(inner_spaces) else DatapathError
        raise kind(f"the {where} must have the parts {wanted}, got {got}")
    return {key: value_of(found[key], part, f"{where}[{key!r}]", let_through) for key, part in inner_spaces.items()}


def _cast(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the numbers in that dtype; floats are rounded to it."""
    if numbers.dtype == dtype:
        return numbers
    with np.errstate(all="ignore"):
        there = numbers.astype(dtype)
        fits = there == numbers if dtype.kind != "f" else np.isfinite(there) | ~np.isfinite(numbers.astype(np.float64))
    if not fits.all():
        raise ValueError(f"{numbers[~fits].flat[0]} does not fit {dtype}")
    return there


def _require(container: Any, kind: int, name: str, where: str) -> None:
    if container.type != kind:
        sent = ("nothing", "Discrete", "Box", "Tuple", "Dict")
        got = sent[container.type] if container.type < len(sent) else f"type {container.type}"
        error = DatapathError if container.type else Incomplete
        raise error(f"the {where} must be of type {name}, as its space says, got {got}")


def _packed(outer: Any, field: str, inner: Any) -> Any:
    packed = getattr(outer, field)
    packed.type_url, packed.value = TYPE_URL + inner.DESCRIPTOR.name, inner.SerializeToString()
    return outer


@cache
def _decode_error() -> type[Exception]:
    error: type[Exception] = library("google.protobuf.message").DecodeError
    return error


def parse(name: str, data: bytes, what: str) -> Any:
    """Decode a message of that name."""
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
