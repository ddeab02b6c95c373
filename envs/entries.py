# SPDX-License-Identifier: BSD-3-Clause
"""Names of the numbers in an observation, for programs that have a policy but not the scenario of its training."""

from ncc.core.errors import ConfigError
from ncc.envs.observation import ObservationSpec, names_of


def neighbours_of(spec: ObservationSpec, obs_dim: int) -> int | None:
    """Return the number of neighbours with which an observation has `obs_dim` numbers; None if any number will do.

    Raises:
        ConfigError: no number of neighbours gives it.
    """
    rest = len(names_of(spec, 0))
    one = len(names_of(spec, 1)) - rest
    near, left = divmod(obs_dim - rest, one) if one else (0, obs_dim - rest)
    if near >= 0 and not left:
        return near if one else None
    needed = f"{rest} + {one} per neighbour" if one else str(rest)
    raise ConfigError(f"observations with neighbours {spec.neighbours!r} have {needed} numbers, got {obs_dim}")


def entry_names(spec: ObservationSpec, obs_dim: int) -> tuple[str, ...]:
    """Return the names of an observation's `obs_dim` numbers in order.

    Raises:
        ConfigError: observations of this kind cannot have that many numbers.
    """
    return names_of(spec, neighbours_of(spec, obs_dim) or 0)
