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
from ncc.agents.a3c.learner import WARM_FILE
from ncc.agents.a3c.network import NetShape, initial_params, policy_layers
from ncc.agents.a3c.warm_start import WarmStart
from ncc.agents.checkpoints import check_networks
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, Layer, load_policy, save_policy
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError, ResultError
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
            self._check_warm_start(self.loaded)
        else:
            self.checkpoints.must_be_empty()

    @property
    def finished(self) -> bool:
        """True if the checkpoint already has all epochs."""
        return self.loaded is not None and self.loaded.state.epochs >= self.config.epochs

    @property
    def cold(self) -> WarmStart | None:
        """The warm start if it has not been done yet, else None."""
        return None if self.warm_epochs else self.config.warm_start

    @property
    def warm_epochs(self) -> int:
        """Epochs of the warm start that are already done."""
        return 0 if self.loaded is None else self.loaded.warm_epochs

    def meter(self, report: Report, state: TrainState) -> Meter:
        """Make a meter that continues from the epochs already learnt."""
        return Meter(report, self.warm_epochs + state.epochs, self.config.total_epochs)

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
        initial = initial_params(shape, derive_seed(self.seed, "a3c", "init"), self.config.initial_unlimited_prob)
        self._save_policy(UNTRAINED_FILE, shape, initial, 0, warm_epochs=0)
        return TrainState.fresh(initial) if self.loaded is None else self.loaded.state

    def save(
        self, shape: NetShape, state: TrainState, episodes: Sequence[int], rng: np.random.Generator | None = None
    ) -> Path:
        """Write a checkpoint. `episodes` are as in `Checkpoint`; `rng` is given in `sync` only."""
        return self.checkpoints.save(self._checkpoint(shape, state, episodes, rng, self.warm_epochs))

    def save_start(self, shape: NetShape, state: TrainState, episode: int = 0, *, warm_epochs: int = 0) -> None:
        """Write the checkpoint that precedes the first update, and treat it as loaded.

        Args:
            shape: sizes.
            state: the untrained state, or the state after the warm start.
            episode: first episode of the environment that the warm start used.
            warm_epochs: epochs of the warm start, 0 if it is not done.
        """
        workers = 1 if self.config.mode == "sync" else self.config.workers
        rng = self.actions_rng() if self.config.mode == "sync" else None
        self.loaded = self._checkpoint(shape, state, (episode, *(0,) * (workers - 1)), rng, warm_epochs)
        self.checkpoints.save(self.loaded)

    def finish_warm_start(self, shape: NetShape, params: Tensor, epochs: int, next_episode: int) -> None:
        """Write the warm policy, and a checkpoint from which to continue with Adam in its initial state."""
        self._save_policy(WARM_FILE, shape, params, 0, warm_epochs=epochs)
        self.save_start(shape, TrainState.fresh(params), next_episode, warm_epochs=epochs)

    def anchor(self, shape: NetShape) -> tuple[Layer, ...] | None:
        """The policy after the warm start if learning is to stay near it, else None.

        Raises:
            ResultError: its file is missing or has another shape.
        """
        if not self.config.anchored:
            return None
        policy, _ = load_policy(self.folder / WARM_FILE)
        found = NetShape(policy.obs_dim, tuple(len(bias) for _, bias in policy.layers[:-1]), policy.n_actions)
        if found != shape:
            raise ResultError(
                f"{self.folder / WARM_FILE} has shape {found} (obs_dim-hidden-n_actions), but the run has {shape}; "
                "put back the file that the run wrote"
            )
        return policy.layers

    def finish(self, shape: NetShape, state: TrainState) -> Path:
        """Write the trained policy."""
        return self._save_policy(POLICY_FILE, shape, state.params, state.epochs)

    def _checkpoint(
        self,
        shape: NetShape,
        state: TrainState,
        episodes: Sequence[int],
        rng: np.random.Generator | None,
        warm_epochs: int,
    ) -> Checkpoint:
        drawn = None if rng is None else dict(rng.bit_generator.state)
        return Checkpoint(shape, self.config.mode, self.seed, state, tuple(episodes), drawn, warm_epochs)

    def _save_policy(
        self, name: str, shape: NetShape, params: Tensor, epochs: int, *, warm_epochs: int | None = None
    ) -> Path:
        path = self.folder / name
        training = {"learner": "a3c", "mode": self.config.mode, "seed": self.seed, "epochs": epochs}
        if warm := self.warm_epochs if warm_epochs is None else warm_epochs:
            training["warm_epochs"] = warm
        save_policy(path, policy_layers(shape, params), {**self._meta, "training": training})
        return path

    def _check_warm_start(self, loaded: Checkpoint) -> None:
        configured = self.config.warm_start is not None
        if loaded.warm_epochs and not configured:
            raise ResultError("the checkpoint comes from a run with a warm start; resume with its agent.warm_start")
        if configured and not loaded.warm_epochs and loaded.state.epochs:
            raise ResultError(
                "the checkpoint comes from a run without a warm start, and it is too late for one; resume with "
                "agent.warm_start=null, or start a new run"
            )


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread, on which drawing the first weights and sums repeat bit for bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
