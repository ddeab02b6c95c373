# SPDX-License-Identifier: BSD-3-Clause
"""The work of both learners around training: start or resume, and write policy files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.checkpoint import Checkpoint, CheckpointFolder
from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import NetShape, initial_params, policy_layers
from ncc.agents.checkpoints import check_networks
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, save_policy
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError
from ncc.core.seeding import derive_seed, generator
from ncc.harness.learner import Report


class Sized(Protocol):
    """The properties of an environment that determine the shape of a network."""

    @property
    def obs_dim(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def n_noise(self) -> int: ...


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
        """True if the checkpoint already has all epochs."""
        return self.loaded is not None and self.loaded.state.epochs >= self.config.epochs

    def meter(self, report: Report, state: TrainState) -> Meter:
        """Make a meter that continues from the epochs already learnt."""
        return Meter(report, state.epochs, self.config.epochs)

    def actions_rng(self) -> np.random.Generator:
        """The generator that draws the actions of `sync`, in its first state."""
        return generator(self.seed, "a3c", "actions")

    def shape(self, env: Sized) -> NetShape:
        """Shape of the networks for an environment."""
        obs_dim = env.obs_dim - env.n_noise
        if obs_dim < 1 or env.n_actions < 0:
            raise ConfigError(f"an environment needs an obs_dim of at least 1, got {obs_dim}")
        return NetShape(obs_dim, self.config.hidden, env.n_actions)

    def begin(self, shape: NetShape) -> TrainState:
        """Write the untrained policy and return the state to start from: the checkpoint's, or a new one."""
        if self.loaded is not None:
            check_networks(self.loaded.shape, shape)
        initial = initial_params(shape, derive_seed(self.seed, "a3c", "init"))
        self._save_policy(UNTRAINED_FILE, shape, initial, 0)
        return TrainState.fresh(initial) if self.loaded is None else self.loaded.state

    def save(
        self, shape: NetShape, state: TrainState, episodes: Sequence[int], rng: np.random.Generator | None = None
    ) -> Path:
        """Write a checkpoint. `episodes` are as in `Checkpoint`; `rng` is given in `sync` only."""
        drawn = None if rng is None else dict(rng.bit_generator.state)
        return self.checkpoints.save(Checkpoint(shape, self.config.mode, self.seed, state, tuple(episodes), drawn))

    def finish(self, shape: NetShape, state: TrainState) -> Path:
        """Write the trained policy."""
        return self._save_policy(POLICY_FILE, shape, state.params, state.epochs)

    def _save_policy(self, name: str, shape: NetShape, params: Tensor, epochs: int) -> Path:
        path = self.folder / name
        training = {"learner": "a3c", "mode": self.config.mode, "seed": self.seed, "epochs": epochs}
        save_policy(path, policy_layers(shape, params), {**self._meta, "training": training})
        return path


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread, on which drawing the first weights and sums repeat bit for bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
