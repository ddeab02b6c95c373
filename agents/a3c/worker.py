# SPDX-License-Identifier: BSD-3-Clause
"""One A3C worker: a process that collects from its own environment and updates the shared model."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock

import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.evolve import evolve
from ncc.agents.a3c.network import ActorCritic, NetShape
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.update import Scalars, gradients
from ncc.core.seeding import generator
from ncc.harness.batch import EnvFactory


@dataclass(frozen=True)
class Ready:
    """Message: the worker's environment is ready."""

    obs_dim: int
    n_actions: int
    n_noise: int


@dataclass(frozen=True)
class Start:
    """Message to start: the shared state, and the first episode. The parent sets `stop` to 1 to end early."""

    shape: NetShape
    state: TrainState
    stop: torch.Tensor
    episode: int


@dataclass(frozen=True)
class Update:
    """Message: one gradient was applied."""

    epochs: int
    episode: int
    returns: tuple[float, ...]
    scalars: Scalars


class Stopped(Exception):  # noqa: N818 - not an error, only leaves the loop
    """The parent asked to stop, or has exited."""


@dataclass(frozen=True)
class WorkerSetup:
    """Data that a worker process receives when it starts."""

    index: int
    make_env: EnvFactory
    config: A3cConfig
    seed: int
    lock: Lock
    """Lock around reads and changes of the shared state, held for about 45 us of an update of some milliseconds.
    Updating without it (Hogwild) would save no more than that, and counts and checkpoints would no longer be exact."""


def work(pipe: "Connection[Ready | Update | None, Start]", setup: WorkerSetup) -> None:
    """Run a worker process: say that the environment is ready, then send each update, and None at the end."""
    torch.set_num_threads(1)
    config, lock, env = setup.config, setup.lock, setup.make_env(setup.index)
    try:
        pipe.send(Ready(env.obs_dim, env.n_actions, env.n_noise))
        start = pipe.recv()
        state, params = start.state, torch.empty_like(start.state.params)
        model = ActorCritic(start.shape, critic=config.value_coef > 0)
        # The epoch in the seed keeps a resumed run from drawing the same actions again.
        rng = generator(setup.seed, "a3c", "actions", setup.index, state.epochs)
        collector = Collector(env, rng, config.steps, start.episode)
        while True:
            with _holding(lock, start.stop):
                steps = state.claim(config.steps, env.n_racks, config.gradient_epochs)
                params.copy_(state.params)
            if not steps:
                break
            model.load(params)
            model.deviation = config.deviation(state.epochs)
            rollout = collector.collect(model, steps)
            left = rollout.epochs
            for scalars in gradients(model, rollout, config, state.epochs / config.gradient_epochs):
                with _holding(lock, start.stop):
                    state.apply(model.gradient, scalars["update/learning_rate"], left)
                    params.copy_(state.params)
                model.load(params)
                left = 0
            pipe.send(Update(rollout.epochs, env.episode, rollout.returns, {**scalars, **rollout.metrics}))
        episode, played = collector.next_episode, env.n_racks
        while config.evolve_frac:
            with _holding(lock, start.stop):
                if not state.claim_episode(played, config.epochs):
                    break
                params.copy_(state.params)
            step, played, earned = evolve(env, episode, start.shape, params, noise=config.evolve_noise, rng=rng)
            episode += 1
            with _holding(lock, start.stop):
                size = config.step_size(min(state.epochs, config.epochs))
                state.move(size * step, played)
            pipe.send(Update(played, episode, (earned,), {"evolve/step_size": size}))
    except Stopped:
        return
    finally:
        env.close()
    pipe.send(None)


@contextmanager
def _holding(lock: Lock, stop: torch.Tensor) -> Iterator[None]:
    """Hold the lock. A killed process never releases it, so waiting checks `stop` now and then."""
    parent = multiprocessing.parent_process()
    while True:
        if stop.item():
            raise Stopped
        if lock.acquire(timeout=0.5):
            break
        if parent is not None and not parent.is_alive():
            raise Stopped
    try:
        yield
    finally:
        lock.release()
