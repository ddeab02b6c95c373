# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]
_Actions = npt.NDArray[np.int64]

class ActorCritic:
    def __init__(self, obs_dim: int, hidden: Sequence[int], n_actions: int, capacity: int) -> None: ...
    @property
    def size(self) -> int: ...
    def load(self, params: _Floats) -> None: ...
    def act(
        self, obs: _Floats, at: int, uniform: npt.NDArray[np.float64], actions: _Actions, values: _Floats
    ) -> bool: ...
    def value(self, obs: _Floats, values: _Floats) -> None: ...
    def gradient(
        self,
        actions: _Actions,
        advantages: _Floats,
        returns: _Floats,
        value_coef: float,
        entropy_coef: float,
        gradient: _Floats,
    ) -> tuple[float, float, float]: ...
