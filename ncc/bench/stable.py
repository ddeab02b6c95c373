# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3's A2C on our environment: an independent learner to hold our own against."""

import time

from ncc.agents.a3c.config import A3cConfig
from ncc.cli import usable_cpus
from ncc.envs.sb3 import HostVecEnv


def agent_steps_per_s(racks: int, config: A3cConfig, seed: int) -> float:
    """Decisions of hosts per second of wall time, learning included, with the settings of `config`."""
    import torch
    from stable_baselines3 import A2C

    hosts = HostVecEnv(num_racks=racks, seed=seed, threads=usable_cpus())
    learner = A2C(
        "MlpPolicy",
        hosts,
        learning_rate=config.learning_rate,
        n_steps=config.steps,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy_coef,
        vf_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        use_rms_prop=False,
        normalize_advantage=config.normalize_advantage,
        policy_kwargs={"net_arch": {"pi": list(config.hidden), "vf": list(config.hidden)}},
        seed=seed,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learner.learn(config.steps * hosts.num_envs)  # what is made at the first update
        began_s, steps = time.perf_counter(), config.epochs * hosts.num_envs // racks
        learner.learn(steps, reset_num_timesteps=False)
        rate: float = steps / (time.perf_counter() - began_s)
        return rate
    finally:
        torch.set_num_threads(threads)
        hosts.close()
