# SPDX-License-Identifier: BSD-3-Clause
"""DDPG of Stable-Baselines3: a central system learns the thresholds of PIAS' classes (AuTO's half for short flows).

One policy learns on several tables of sizes and loads at once. The file that it writes is a controller.

pip install '.[sb3]'; python sb3_thresholds.py [--decisions 6000] [--seed 1] [--out FILE]
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import ncc  # noqa: F401 - registers the environments
from ncc.agents.policy import save_policy

SIZES = ("websearch", "hadoop", "cachefollower", "webserver")
LOADS = (0.5, 0.8)
STACK = {"transport": "dctcp", "tags": "pias"}


def made(sizes, load, **settings):
    """Environment of one table of sizes, at a load of the links of its 16 hosts."""
    scenario = {"name": "priorities", "workload": {"flows": {"distribution": sizes, "load_frac": load * 16}}}
    return gymnasium.make("ncc/Thresholds-v0", scenario=scenario, stack=STACK, **settings)


class SameFlows(gymnasium.Wrapper):
    """Environment whose episodes all have the same flows, which no training has."""

    def reset(self, **_):
        """Begin the episode again."""
        return self.env.reset(seed=20_000)


def judge(cells, args):
    """Callback that evaluates the policy on held-out flows, 15 times: rewards are in FOLDER/evaluations.npz."""
    env = VecMonitor(DummyVecEnv([lambda cell=cell: SameFlows(made(*cell, goal=args.goal)) for cell in cells]))
    every = max(1, args.decisions // 15 // len(cells))
    return EvalCallback(env, n_eval_episodes=len(cells), eval_freq=every, log_path=args.curve, verbose=0)


def main():
    """Train, save the policy, and print how to judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6_000, help="decisions of 20 ms, summed over the networks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goal", default="slowdown", help="reward: slowdown, or AuTO's throughput")
    parser.add_argument("--out", default="thresholds.ncc")
    parser.add_argument("--curve", help="folder for the rewards on held-out flows")
    args = parser.parse_args()
    torch.set_num_threads(1)  # small networks: more threads are slower
    cells = [(sizes, load) for load in LOADS for sizes in SIZES]
    env = VecMonitor(DummyVecEnv([lambda cell=cell: made(*cell, goal=args.goal) for cell in cells]))
    noise = NormalActionNoise(np.zeros(7), np.full(7, 0.3))
    model = DDPG(
        "MlpPolicy",
        env,
        learning_rate=lambda left: 1e-3 * (0.05 + 0.95 * left),
        buffer_size=args.decisions,  # nothing is forgotten: networks do not change
        learning_starts=args.decisions // 5,  # random actions first
        gamma=0.5,  # an action matters for the next few periods
        gradient_steps=8,
        action_noise=VectorizedActionNoise(noise, len(cells)),
        policy_kwargs={
            "activation_fn": torch.nn.Tanh,  # as policy files have it
            "net_arch": {"pi": [32], "qf": [64, 64]},
            "optimizer_kwargs": {"weight_decay": 1e-4},
        },
        seed=args.seed,
        device="cpu",
    )
    model.learn(args.decisions, callback=judge(cells, args) if args.curve else None)
    affine = [each for each in model.actor.mu if isinstance(each, torch.nn.Linear)]
    layers = [(each.weight.detach().numpy(), each.bias.detach().numpy()) for each in affine]
    meta = {"thresholds": 1, "stack": STACK, "sizes": list(SIZES), "loads": list(LOADS)}
    save_policy(Path(args.out), layers, meta | {"decisions": args.decisions, "seed": args.seed})
    print(f"mean reward of the last episodes: {np.mean([each['r'] for each in model.ep_info_buffer]):.3f}")
    print(f"ncc evaluate controller={args.out},dctcp scenario=priorities datapath=packetsim")


if __name__ == "__main__":
    main()
