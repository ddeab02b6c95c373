# SPDX-License-Identifier: BSD-3-Clause
"""A2C: one process, one thread, equal seeds give bit-equal weights, and a resumed run equals an uninterrupted one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.checkpoint import Checkpoint
from ncc.agents.a3c.network import ActorCritic, NetShape
from ncc.agents.a3c.progress import Meter
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.run import TrainingRun
from ncc.agents.a3c.update import compute_gradient
from ncc.core.seeding import generator
from ncc.harness.batch import BatchedEnv, EnvFactory
from ncc.harness.learner import Report


def train_sync(run: TrainingRun, make_env: EnvFactory, report: Report) -> Path:
    """Train on ``make_env(0)``; see `A3cLearner.train`.

    An environment cannot be stored, so a checkpoint is made between episodes only: once one is due, at the first moment
    at which all racks end theirs together. If that does not come within another `checkpoint_epochs`, all racks start a
    new episode. Either way the uninterrupted run resets to the same episode as a resumed one.
    """
    with _one_thread():
        env = make_env(0)
        try:
            return _train(run, env, report)
        finally:
            env.close()


def _train(run: TrainingRun, env: BatchedEnv, report: Report) -> Path:
    config, shape = run.config, run.shape(env)
    rng = generator(run.seed, "a3c", "actions")
    state, first_episode = run.begin(shape), 0
    model = ActorCritic(shape)
    if run.loaded is not None and run.loaded.rng is not None:
        first_episode = run.loaded.episodes[0]
        rng.bit_generator.state = run.loaded.rng
    collector = Collector(env, rng, config.steps, first_episode)
    if run.loaded is None:
        run.checkpoints.save(_checkpoint(run, shape, state, collector, rng))
    meter, saved_epochs = Meter(report, state.epochs, config.epochs), state.epochs
    model.load(state.params)
    while steps := state.claim(config.steps, env.n_racks, config.epochs):
        due = state.epochs - saved_epochs >= config.checkpoint_epochs
        rollout = collector.collect(model, steps, stop_at_boundary=due)
        scalars = compute_gradient(model, rollout, config, state.epochs / config.epochs)
        state.apply(model.gradient, scalars["update/learning_rate"], rollout.epochs)
        state.counts[2] = state.epochs  # a rollout that stopped at a boundary gives the rest back
        model.load(state.params)
        meter.add(rollout.epochs, rollout.returns, scalars)
        waited = state.epochs - saved_epochs
        if waited >= 2 * config.checkpoint_epochs or (waited >= config.checkpoint_epochs and collector.at_boundary):
            meter.flush()  # what a resumed run will not say again is said by now
            run.checkpoints.save(_checkpoint(run, shape, state, collector, rng))
            saved_epochs = state.epochs
            collector.reset(collector.next_episode)
    meter.flush()
    if state.epochs != saved_epochs:
        run.checkpoints.save(_checkpoint(run, shape, state, collector, rng))
    return run.finish(shape, state)


def _checkpoint(
    run: TrainingRun, shape: NetShape, state: TrainState, collector: Collector, rng: np.random.Generator
) -> Checkpoint:
    return Checkpoint(shape, "sync", run.seed, state, (collector.next_episode,), dict(rng.bit_generator.state))


@contextmanager
def _one_thread() -> Iterator[None]:
    """PyTorch draws the first weights and adds up element by element: on one thread both repeat bit for bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
