# SPDX-License-Identifier: BSD-3-Clause
"""Conversion of Gymnasium's spaces and values to ns3-gym's messages, and back.

The protocol has Discrete, Box, Tuple and Dict. A Box has one lower and one upper bound for all its numbers. Bounds and
integers have 32 bits, whatever type ns-3 states. ``MultiDiscrete`` and ``MultiBinary`` are sent as Tuples of Discrete.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.schema import ENUMS, PACKAGE, library, messages

Space = spaces.Space[Any]
KINDS = ENUMS["SpaceType"][1:]
NUMBERS: dict[str, tuple[type[np.generic], str]] = {
    "INT": (np.int32, "intData"),
    "UINT": (np.uint32, "uintData"),
    "FLOAT": (np.float32, "floatData"),
    "DOUBLE": (np.float64, "doubleData"),
}
"""numpy's type for each `Dtype` of the protocol, and the field of a BoxDataContainer that holds such numbers."""
_SENT_AS = {"i": "INT", "u": "UINT", "f": "FLOAT"}
_LARGEST = float(np.finfo(np.float32).max)
NUMBERS_MAX = 10_000_000
"""Largest number of entries of a Box, which makes 40 MB per message."""
_INT32_MAX = 2**31 - 1

LetThrough = Callable[[str], None]
"""Function that is called with a sentence about each value that is accepted although its space does not contain it."""


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
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in _SENT_AS:
        return space
    raise ConfigError(
        f"ns3-gym's protocol has no {space}: offer a Discrete from 0, a Box of numbers, or a Tuple or Dict of these"
    )


def describe(space: Space, name: str = "") -> Any:
    """Make a `SpaceDescription` of a space that `wire_space` returned."""
    pb, kind = messages(), _kind(space)
    description = pb.SpaceDescription(name=name, type=getattr(pb, kind))
    if isinstance(space, spaces.Discrete):
        inner = pb.DiscreteSpace(n=int(space.n))
    elif isinstance(space, spaces.Box):
        dtype = pb.DOUBLE if space.dtype == np.float64 else getattr(pb, _sent_as(space))
        low, high = (float(np.clip(bound, -_LARGEST, _LARGEST)) for bound in (space.low.min(), space.high.max()))
        inner = pb.BoxSpace(low=low, high=high, dtype=dtype, shape=space.shape)
    else:
        inner = getattr(pb, f"{kind}Space")(element=[describe(part, key) for _, part, key in _parts(space)])
    description.space.Pack(inner)
    return description


def space_of(description: Any, where: str) -> Space:
    """Return the space that a `SpaceDescription` describes.

    Equal bounds, which ns-3 sends if a script has separate bounds for each number, count as no bounds.
    """
    if not 0 < description.type <= len(KINDS):
        raise DatapathError(f"the {where} is missing: the simulation must describe it when it connects")
    kind = KINDS[description.type - 1]
    inner = _unpacked(description.space, f"{kind}Space", where)
    if kind == "Discrete":
        if inner.n < 1:
            raise DatapathError(f"the {where} is Discrete with {inner.n} values, and must have at least 1")
        return spaces.Discrete(inner.n)
    if kind == "Box":
        return _box(inner, where)
    if kind == "Tuple":
        return spaces.Tuple([space_of(part, f"{where}[{index}]") for index, part in enumerate(inner.element)])
    return spaces.Dict({part.name: space_of(part, f"{where}[{part.name!r}]") for part in inner.element})


def _box(box: Any, where: str) -> Space:
    dtype = np.dtype(NUMBERS[_dtype_name(box)][0])
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


def pack(space: Space, value: Any) -> Any:
    """Make a `DataContainer` of a value of that space, even if it is beyond the bounds.

    Numbers of a Box are sent as ns3-gym's own Python side does: floats of 32 and 64 bits as `FLOAT`, because scripts
    cast them to that.

    Raises:
        ConfigError: the space's type and size cannot hold the value.
    """
    try:
        return _pack(space, value)
    except (TypeError, ValueError, OverflowError, KeyError, IndexError) as error:
        raise ConfigError(f"{value!r} is not a value of {space} ({error})") from None


def _pack(space: Space, value: Any, name: str = "") -> Any:
    pb, kind = messages(), _kind(space)
    container = pb.DataContainer(name=name, type=getattr(pb, kind))
    if isinstance(space, spaces.Discrete):
        inner = pb.DiscreteDataContainer(data=int(value))
    elif isinstance(space, spaces.Box):
        sent_as, count, numbers = _sent_as(space), math.prod(space.shape), np.asarray(value)
        if numbers.size != count:
            raise ValueError(f"it has {numbers.size} numbers instead of {count}")
        dtype, field = NUMBERS[sent_as]
        inner = pb.BoxDataContainer(dtype=getattr(pb, sent_as), shape=space.shape)
        getattr(inner, field).extend(_cast(numbers, np.dtype(dtype)).ravel().tolist())
    else:
        parts = _parts(space)
        if kind == "Tuple" and len(value) != len(parts):
            raise ValueError(f"it has {len(value)} parts instead of {len(parts)}")
        packed = [_pack(part, value[index], key) for index, part, key in parts]
        inner = getattr(pb, f"{kind}DataContainer")(element=packed)
    container.data.Pack(inner)
    return container


def value_of(container: Any, space: Space, where: str, let_through: LetThrough | None = None) -> Any:
    """Return the value in a `DataContainer`, in the space's shape and dtype: int, array, tuple or dict.

    Values outside a Box's bounds are accepted, because scripts state bounds loosely. A Box of floats rounds any number
    to its dtype; a Box of whole numbers accepts only those.

    Args:
        container: the message.
        space: space of the value.
        where: name of the value in errors.
        let_through: called with each deviation that ns3-gym's own agents tolerate: a Discrete beyond its values, and a
            Tuple in place of a Dict, taken by position. None: these are errors.

    Raises:
        Incomplete: the container holds less than the space says.
        DatapathError: the container holds something else.
    """
    pb, kind = messages(), _kind(space)
    if isinstance(space, spaces.Dict) and container.type == pb.Tuple and let_through is not None:
        # ns-3 keeps a Dict's parts in the order of their names, as Gymnasium does.
        let_through(f"the {where} is a Dict by its space, and came as a Tuple: its parts are taken by position")
        values = value_of(container, spaces.Tuple(list(space.spaces.values())), where, let_through)
        return dict(zip(space.spaces, values, strict=True))
    if container.type != getattr(pb, kind):
        sent = ("nothing", *KINDS)
        got = sent[container.type] if container.type < len(sent) else f"type {container.type}"
        _refuse(not container.type, f"the {where} must be of type {kind}, as its space says, got {got}")
    inner = _unpacked(container.data, f"{kind}DataContainer", where)
    if isinstance(space, spaces.Discrete):
        if not 0 <= inner.data < space.n:
            if let_through is None:
                raise DatapathError(f"the {where} must be from 0 to {int(space.n) - 1}, got {inner.data}")
            let_through(f"the {where} is from 0 to {int(space.n) - 1} by its space, and others come as well")
        return int(inner.data)
    if isinstance(space, spaces.Box):
        return _numbers(inner, space, where)
    if isinstance(space, spaces.Tuple):
        items = list(inner.element)
        if len(items) != len(space.spaces):
            few = len(items) < len(space.spaces)
            _refuse(few, f"the {where} must have {len(space.spaces)} parts, got {len(items)}")
        return tuple(value_of(items[index], part, f"{where}[{index}]", let_through) for index, part, _ in _parts(space))
    by_name, wanted = {part.name: part for part in inner.element}, [key for _, _, key in _parts(space)]
    if set(by_name) != set(wanted):
        names, got = (", ".join(sorted(listed)) or "none" for listed in (wanted, by_name))
        _refuse(set(by_name) < set(wanted), f"the {where} must have the parts {names}, got {got}")
    return {key: value_of(by_name[key], part, f"{where}[{key!r}]", let_through) for _, part, key in _parts(space)}


def _numbers(box: Any, space: spaces.Box, where: str) -> npt.NDArray[Any]:
    """Return the numbers of a `BoxDataContainer` in the space's shape and dtype."""
    field, count = NUMBERS[_dtype_name(box)][1], math.prod(space.shape)
    numbers, dtype = getattr(box, field), cast("np.dtype[Any]", space.dtype)
    if len(numbers) != count:
        _refuse(len(numbers) < count, f"the {where} must have {count} numbers, as its space says, got {len(numbers)}")
    try:
        return _cast(np.array(numbers), dtype).reshape(space.shape)
    except ValueError as error:
        raise DatapathError(
            f"the {where} is of {dtype} by its space, and came as {field} with what that cannot hold ({error}): "
            "give the script's space the type of its container"
        ) from None


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


def _refuse(incomplete: bool, message: str) -> NoReturn:
    raise Incomplete(message) if incomplete else DatapathError(message)


def _kind(space: Space) -> str:
    """Return the protocol's name for the kind of a space."""
    return next(kind for kind in KINDS if isinstance(space, getattr(spaces, kind)))


def _parts(space: Space) -> list[tuple[Any, Space, str]]:
    """Return the parts of a Tuple or Dict: index in a value, space, and name in messages."""
    if isinstance(space, spaces.Tuple):
        return [(index, part, "") for index, part in enumerate(space.spaces)]
    return [(key, part, key) for key, part in cast(spaces.Dict, space).spaces.items()]


def _sent_as(box: spaces.Box) -> str:
    """Return the name of the `Dtype` in which the numbers of a Box are sent."""
    return _SENT_AS[cast("np.dtype[Any]", box.dtype).kind]


def _dtype_name(box: Any) -> str:
    """Return the name of the `Dtype` that a message about a Box states; FLOAT if it states none."""
    return ENUMS["Dtype"][box.dtype] if 0 < box.dtype < len(ENUMS["Dtype"]) else "FLOAT"


def parse(name: str, data: bytes, what: str) -> Any:
    """Decode a message of the type `name`; raise `DatapathError`, which calls it `what`, if `data` is none."""
    message = getattr(messages(), name)()
    try:
        message.ParseFromString(data)
    except library("google.protobuf.message").DecodeError:
        raise DatapathError(
            f"{what} must be a {name} of ns3-gym's protocol, got {len(data)} bytes of another kind"
        ) from None
    return message


def _unpacked(packed: Any, name: str, where: str) -> Any:
    if packed.TypeName() != f"{PACKAGE}.{name}":
        raise DatapathError(f"the {where} must hold a {name}, got {packed.type_url or 'nothing'}")
    return parse(name, packed.value, f"the {where}")
