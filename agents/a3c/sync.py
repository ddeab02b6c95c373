# SPDX-License-Identifier: BSD-3-Clause
"""A2C in one process and thread: equal seeds give equal bits, and a resumed run equals an uninterrupted one."""

from pathlib import Path

from ncc.agents.a3c.evolve import evolve
from ncc.agents.a3c.network import NetShape
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.run import TrainingRun, one_thread
from ncc.agents.a3c.update import Updater
from ncc.agents.progress import Meter
from ncc.core.seeding import generator
from ncc.harness.batch import BatchedEnv, EnvFactory
from ncc.harness.learner import Report


def train_sync(run: TrainingRun, make_env: EnvFactory, report: Report) -> Path:
    """Train on ``make_env(0)``; see `A3cConfig.fit`.

    An environment cannot be stored, so checkpoints are made only between episodes: a due checkpoint waits until all
    racks end an episode together. If that does not happen within another `checkpoint_epochs`, all racks start a new
    episode. Either way, an uninterrupted run resets to the same episode as a resumed one.
    """
    with one_thread():
        env = make_env(0)
        try:
            return _train(run, env, report)
        finally:
            env.close()


def _train(run: TrainingRun, env: BatchedEnv, report: Report) -> Path:
    config, shape, episode = run.config, NetShape.of(env, run.config.hidden), 0
    rng, state = generator(run.seed, "a3c", "actions"), run.begin(shape)
    if run.loaded is not None and run.loaded.header.rng is not None:
        episode, rng.bit_generator.state = run.loaded.header.episode, run.loaded.header.rng
    collector = Collector(env, rng, config.steps, episode)
    updater = Updater(collector, config, shape, state)
    if run.loaded is None:
        run.save(shape, state, episode, rng)
    meter, saved_epochs = Meter(report, state.epochs, config.epochs), state.epochs

    def save(episode: int) -> None:
        nonlocal saved_epochs
        meter.flush()  # report now, because a resumed run does not repeat it
        run.save(shape, state, episode, rng)
        saved_epochs = state.epochs

    while update := updater.update(stop_at_boundary=state.epochs - saved_epochs >= config.checkpoint_epochs):
        state.counts[2] = state.epochs  # a rollout that stopped at a boundary returns the epochs that it did not use
        meter.add(update.epochs, update.returns, update.scalars)
        waited = state.epochs - saved_epochs
        if waited >= 2 * config.checkpoint_epochs or (waited >= config.checkpoint_epochs and collector.at_boundary):
            save(collector.next_episode)
            collector.reset(collector.next_episode)
    episode = collector.next_episode
    while config.evolve_frac and state.epochs < config.epochs:
        drawn = generator(run.seed, "a3c", "evolve", state.updates)
        step, epochs, earned = evolve(env, episode, shape, state.params, noise=config.evolve_noise, rng=drawn)
        size, episode = config.step_size(state.epochs), episode + 1
        state.move(size * step, epochs)
        meter.add(epochs, [earned], {"evolve/step_size": size})
        if state.epochs - saved_epochs >= config.checkpoint_epochs:
            save(episode)
    meter.flush()
    if state.epochs != saved_epochs:
        save(episode)
    return run.finish(shape, state)
