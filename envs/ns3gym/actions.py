# SPDX-License-Identifier: BSD-3-Clause
"""Any action space of the protocol as a list of choices, for learners with discrete actions."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError
from ncc.envs.ns3gym.containers import Space

CHOICES_MAX = 10_000
"""Most choices of a part; a policy's last layer has a row for each."""

Build = Callable[[Iterator[int]], Any]


class Choices:
    """Actions as one choice for each part: a Discrete or a number of a Box, alone or in Tuples and Dicts.

    Args:
        space: action space.
        levels: number of values, evenly spread over the bounds, for each number of a Box; fewer if the Box has
            fewer whole numbers.
    """

    def __init__(self, space: Space, levels: int) -> None:
        sizes, self._build = _choices(space, levels, "action space")
        if not sizes:
            raise ConfigError("the simulation's actions have no parts, so there is nothing to learn")
        self.sizes: npt.NDArray[np.int64] = np.array(sizes, np.int64)
        """Number of values of each part [parts]."""
        self.n_parts = len(sizes)
        self.n_actions = int(self.sizes.max())
        if self.n_actions > CHOICES_MAX:
            raise ConfigError(
                f"a Discrete of the simulation's actions has {self.n_actions} values, and {CHOICES_MAX} at most can be "
                "chosen among: state a Box in the script, whose values are chosen among env.levels"
            )

    def action(self, indices: npt.NDArray[np.int64]) -> Any:
        """Return the action of indices [parts], each from 0 to n_actions - 1.

        In a part with fewer values, several neighbouring indices give the same value.
        """
        chosen = indices * self.sizes // self.n_actions
        return self._build(iter(chosen.tolist()))


def _choices(space: Space, levels: int, where: str) -> tuple[list[int], Build]:
    """Return the sizes of the parts, and a function that makes an action from one index of each."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)], next
    if isinstance(space, spaces.Box):
        tables = _tables(space, levels, where)
        shape, dtype = space.shape, space.dtype

        def numbers(indices: Iterator[int]) -> Any:
            return np.array([table[next(indices)] for table in tables], dtype).reshape(shape)

        return [len(table) for table in tables], numbers
    if isinstance(space, spaces.Tuple):
        parts = [_choices(part, levels, f"{where}[{index}]") for index, part in enumerate(space.spaces)]
        made = [build for _, build in parts]
        return [size for sizes, _ in parts for size in sizes], lambda indices: tuple(build(indices) for build in made)
    inner = cast(spaces.Dict, space).spaces
    named = {name: _choices(part, levels, f"{where}[{name!r}]") for name, part in inner.items()}

    def mapping(indices: Iterator[int]) -> Any:
        return {name: build(indices) for name, (_, build) in named.items()}

    return [size for sizes, _ in named.values() for size in sizes], mapping


def _tables(box: spaces.Box, levels: int, where: str) -> list[npt.NDArray[Any]]:
    """Return the values of each number of a Box."""
    if not (np.isfinite(box.low).all() and np.isfinite(box.high).all()):
        raise ConfigError(
            f"the simulation's {where} is a Box without bounds ({box}), and its numbers are to be chosen among "
            "env.levels values between them: state low and high in the script"
        )
    kind = cast("np.dtype[Any]", box.dtype).kind
    tables = []
    for low, high in zip(box.low.ravel().tolist(), box.high.ravel().tolist(), strict=True):
        values = np.linspace(low, high, levels)
        tables.append(values if kind == "f" else np.unique(np.round(values)))
    return tables
