# SPDX-License-Identifier: BSD-3-Clause
"""A2C of Stable-Baselines3 for hosts as agents of PettingZoo, which SuperSuit turns into a vector environment.

pip install ".[sb3]" supersuit; python pettingzoo_supersuit.py [--steps 200000] [--scenario rack] [--out a2c.zip]
"""

import argparse

import supersuit
import torch
from stable_baselines3 import A2C

from ncc.envs.parallel import RackParallelEnv


def main() -> None:
    """Train, save the model, and print the command that evaluates it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000, help="decisions of single hosts")
    parser.add_argument("--scenario", default="rack")
    parser.add_argument("--out", default="a2c.zip")
    args = parser.parse_args()

    torch.set_num_threads(1)  # small networks: more threads are slower
    hosts = supersuit.pettingzoo_env_to_vec_env_v1(RackParallelEnv(args.scenario))
    env = supersuit.concat_vec_envs_v1(hosts, 2, num_cpus=0, base_class="stable_baselines3")
    model = A2C("MlpPolicy", env, n_steps=32, gamma=0.99, verbose=1)
    model.learn(args.steps)
    model.save(args.out)
    env.close()
    print(f"\nncc evaluate controller=ncc,dctcp,{args.out} scenario={args.scenario} datapath=packetsim")


if __name__ == "__main__":
    main()
