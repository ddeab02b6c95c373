# SPDX-License-Identifier: BSD-3-Clause
"""PPO of plain RLlib (its new API stack) on a rack, and the command that puts it beside NCC and DCTCP.

pip install "ray[rllib]" torch; python rllib_plain.py [--steps 100000] [--out rllib_ppo]
"""

import argparse
from pathlib import Path

import gymnasium
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import ncc  # noqa: F401 - registers ncc/RackBox-v0


def main() -> None:
    """Train, save the model, and print the command that evaluates it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="decisions of the whole rack")
    parser.add_argument("--batch", type=int, default=2000, help="decisions between two updates")
    parser.add_argument("--scenario", default="rack")
    parser.add_argument("--out", default="rllib_ppo")
    args = parser.parse_args()

    tune.register_env("rack", lambda settings: gymnasium.make("ncc/RackBox-v0", **settings))
    config = (
        PPOConfig()
        .environment("rack", env_config={"scenario": args.scenario})
        .env_runners(num_env_runners=0)  # samples in this process; more runners would be processes
        .training(train_batch_size_per_learner=args.batch, minibatch_size=min(250, args.batch), num_epochs=5)
    )
    algorithm = config.build_algo()
    for _ in range(-(-args.steps // args.batch)):
        result = algorithm.train()
        print(f"return of an episode: {result['env_runners'].get('episode_return_mean', float('nan')):.1f}")
    algorithm.save_to_path(str(Path(args.out).resolve()))
    algorithm.stop()
    print(f"\nncc evaluate controller=ncc,dctcp,{args.out} scenario={args.scenario} datapath=packetsim")


if __name__ == "__main__":
    main()
