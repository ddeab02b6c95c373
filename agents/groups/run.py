# SPDX-License-Identifier: BSD-3-Clause
"""One training over groups in one folder."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.run import one_thread
from ncc.agents.groups.checkpoint import GroupsCheckpoints, State
from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.critic import Critic
from ncc.agents.groups.network import Float, Shape
from ncc.agents.groups.play import Explorer, advantages, over_lists, play, to_go
from ncc.agents.groups.update import candidates, evolve, improve
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, save_policy
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError, InvalidRunError
from ncc.core.seeding import generator
from ncc.harness.batch import EnvFactory, ObsArray
from ncc.harness.learner import Report

JUDGED_FROM = 10**6
"""Number of the first episode by which weights are judged; no update plays it."""


class GroupsRun:
    """One training in one folder; see `GroupsLearner.train` for arguments and errors."""

    def __init__(
        self,
        config: GroupsConfig,
        make_env: EnvFactory,
        folder: Path,
        seed: int,
        meta: Mapping[str, Any],
        *,
        resume: bool,
    ) -> None:
        self.config, self.folder, self.seed, self._meta = config, folder, seed, meta
        self._checkpoints = GroupsCheckpoints(folder, config.keep_checkpoints, meta)
        if not resume:
            self._checkpoints.must_be_empty()
        self._env = make_env(0)
        try:
            self._begin(resume=resume)
        except BaseException:
            self._env.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._env.close()

    def train(self, report: Report) -> Path:
        """Train to the end and return the policy file."""
        config, state = self.config, self._state
        meter = Meter(report, state.epochs, config.epochs)
        with one_thread():
            while state.epochs < config.epochs:
                before = state.epochs
                scalars, earned = self._round()
                meter.add(state.epochs - before, [earned], scalars)
                if state.rounds % config.checkpoint_updates == 0:
                    self._checkpoints.save(state, self._shape, self.seed)
            self._judge()
        meter.flush()
        self._checkpoints.save(state, self._shape, self.seed)
        return self._save_policy(POLICY_FILE, state.candidates[0])

    def _begin(self, *, resume: bool) -> None:
        env, config = self._env, self.config
        if env.n_actions:
            raise ConfigError(
                f"agent=groups adds noise to numbers and the environment takes {env.n_actions} action indices: set "
                "action.kind to residual, and action.formula"
            )
        if env.n_racks != config.copies * config.lists:
            raise ConfigError(
                f"agent=groups needs copies x lists = {config.copies * config.lists} racks, got {env.n_racks}"
            )
        self._shape = Shape(env.obs_dim, config.hidden)
        initial = self._shape.initial(generator(self.seed, "groups", "init"))
        fresh = State(TrainState.fresh(torch.from_numpy(initial.copy())), [initial])
        self._state = self._checkpoints.load(self._shape, self.seed) if resume else fresh
        self._improve = _updates(config, self._shape)
        self._save_policy(UNTRAINED_FILE, initial)
        if not resume:
            self._checkpoints.save(fresh, self._shape, self.seed)

    def _round(self) -> tuple[dict[str, float], float]:
        """Do one update; return scalars for logs, and the mean reward per host and epoch."""
        config, state = self.config, self._state
        if state.epochs >= config.polish_from and not state.polishing:
            self._judge()
            state.train, state.polishing = TrainState.fresh(torch.from_numpy(state.candidates[0].copy())), True
        rng = generator(self.seed, "groups", "round", state.rounds)
        rewards, scalars = self._polish(rng) if state.polishing else self._learn(rng)
        if not torch.isfinite(state.train.params).all():
            raise InvalidRunError(f"weights are not finite after {state.rounds} updates: lower agent.learning_rate")
        state.rounds += 1
        if state.rounds % config.judge_every == 0:
            state.candidates.append(state.train.params.numpy().copy())
            if len(state.candidates) == config.copies:
                self._judge()
        return scalars, float(rewards.mean())

    def _learn(self, rng: np.random.Generator) -> tuple[Float, dict[str, float]]:
        """Play an episode with noise and do PPO's passes over it."""
        config, state = self.config, self._state
        done = state.epochs / config.polish_from
        noise = config.noise + (config.noise_final - config.noise) * done
        explorer = Explorer(config, self._shape, state.train.params.numpy(), self._env, noise=noise, rng=rng)
        rewards = self._play(state.rounds, explorer)
        samples = explorer.samples()
        rate = config.learning_rate * _less(done)
        if config.baseline != "critic":
            gained = advantages(rewards, samples, config)
            return rewards, self._improve(state.train, samples, gained, noise=noise, rate=rate, rng=rng)
        states, later = explorer.states(), to_go(rewards, config.gamma)[:-1]
        critic = Critic(config, states.shape[-1])
        if state.critic is None:
            initial = critic.initial(generator(self.seed, "groups", "critic"))
            state.critic = TrainState.fresh(torch.from_numpy(initial))
        gained = advantages(rewards, samples, config, critic.values(state.critic.params, states, explorer.networks))
        scalars = self._improve(state.train, samples, gained, noise=noise, rate=rate, rng=rng)
        return rewards, scalars | critic.fit(state.critic, states, later, explorer.networks, rate=rate, rng=rng)

    def _polish(self, rng: np.random.Generator) -> tuple[Float, dict[str, float]]:
        """Play an episode with candidates around the weights and move towards the better ones."""
        config, train = self.config, self._state.train
        weights, error = candidates(train.params.numpy(), config.polish_noise, config.copies, rng)
        rewards = self._compare(self._state.rounds, weights)
        returns = over_lists(rewards, copies=config.copies, gamma=config.gamma)
        done = (self._state.epochs - config.polish_from) / (config.epochs - config.polish_from)
        evolve(config, train, error, returns, config.polish_learning_rate * _less(done))
        return rewards, {"polish/spread": float(returns.std())}

    def _judge(self) -> None:
        """Keep the candidate that earns most over lists that all play, of equals the first."""
        config, state = self.config, self._state
        if len(state.candidates) == 1:
            return
        weights = np.stack([state.candidates[k % len(state.candidates)] for k in range(config.copies)])
        earned = np.zeros(config.copies)
        for episode in range(JUDGED_FROM, JUDGED_FROM + config.judge_episodes):
            rewards = self._compare(episode, weights)
            earned += over_lists(rewards, copies=config.copies, gamma=config.gamma)
        state.candidates = [weights[int(earned.argmax())]]

    def _compare(self, episode: int, weights: Float) -> Float:
        """Let copy k of every group play an episode with weights [copies, size]; return its rewards."""
        of_racks = np.tile(weights, (self.config.lists, 1))
        return self._play(episode, lambda _, obs: self._shape.numbers(of_racks, obs))

    def _play(self, episode: int, act: Callable[[int, ObsArray], Float]) -> Float:
        rewards = play(self._env, episode, act)
        self._state.epochs += rewards.shape[0] * rewards.shape[1]
        return rewards

    def _save_policy(self, name: str, weights: Float) -> Path:
        path = self.folder / name
        training = {"learner": "groups", "seed": self.seed, "epochs": self._state.epochs}
        save_policy(path, self._shape.layers(weights), {**self._meta, "training": training})
        return path


def _updates(config: GroupsConfig, shape: Shape) -> Callable[..., dict[str, float]]:
    """Return what does PPO's passes over samples."""
    if config.updates == "own":
        return partial(improve, config, shape)
    from ncc.agents.rllib.groups import RllibUpdates  # loads Ray

    return RllibUpdates(config, shape)


def _less(done: float) -> float:
    """Return the factor of a learning rate when that part of its phase is done: 1, and a tenth at the end."""
    return max(1 - 0.9 * done, 0.1)
