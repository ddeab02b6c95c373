# SPDX-License-Identifier: BSD-3-Clause
"""What both learners do around training: start or resume, and write policy files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.checkpoint import Checkpoint, CheckpointFolder, check_shape
from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.learner import POLICY_FILE, UNTRAINED_FILE
from ncc.agents.a3c.network import NetShape, initial_params, policy_layers
from ncc.agents.policy import save_policy
from ncc.core.errors import ConfigError
from ncc.core.seeding import derive_seed


class Sized(Protocol):
    """What a network needs to know of an environment."""

    @property
    def obs_dim(self) -> int: ...
    @property
    def n_actions(self) -> int: ...


class TrainingRun:
    """One training in one folder."""

    def __init__(self, config: A3cConfig, folder: Path, seed: int, meta: Mapping[str, Any], *, resume: bool) -> None:
        self.config, self.folder, self.seed, self._meta = config, folder, seed, meta
        self.checkpoints = CheckpointFolder(folder, config.keep_checkpoints)
        self.loaded: Checkpoint | None = None
        if resume:
            self.loaded = self.checkpoints.load(config.mode, seed)
        else:
            self.checkpoints.must_be_empty()

    @property
    def finished(self) -> bool:
        """The checkpoint already has all epochs."""
        return self.loaded is not None and self.loaded.state.epochs >= self.config.epochs

    def shape(self, env: Sized) -> NetShape:
        """The networks for an environment."""
        if env.obs_dim < 1 or env.n_actions < 1:
            raise ConfigError(
                f"an environment needs obs_dim and n_actions of at least 1, got {env.obs_dim}, {env.n_actions}"
            )
        return NetShape(env.obs_dim, self.config.hidden, env.n_actions)

    def begin(self, shape: NetShape) -> TrainState:
        """The state to go on from: fresh, or the checkpoint's. Writes the untrained policy."""
        if self.loaded is not None:
            check_shape(self.loaded, shape)
        initial = initial_params(shape, derive_seed(self.seed, "a3c", "init"), self.config.initial_unlimited_prob)
        self._save_policy(UNTRAINED_FILE, shape, initial, 0)
        return TrainState.fresh(initial) if self.loaded is None else self.loaded.state

    def finish(self, shape: NetShape, state: TrainState) -> Path:
        """Write the trained policy."""
        return self._save_policy(POLICY_FILE, shape, state.params, state.epochs)

    def _save_policy(self, name: str, shape: NetShape, params: Tensor, epochs: int) -> Path:
        path = self.folder / name
        training = {"learner": "a3c", "mode": self.config.mode, "seed": self.seed, "epochs": epochs}
        save_policy(path, policy_layers(shape, params), {**self._meta, "training": training})
        return path
