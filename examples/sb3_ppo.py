# SPDX-License-Identifier: BSD-3-Clause
"""PPO of Stable-Baselines3 on a rack, and the command that puts it beside NCC and DCTCP.

pip install stable-baselines3; python sb3_ppo.py [--steps 200000] [--scenario rack] [--out sb3_ppo.zip]
"""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import ncc  # noqa: F401 - registers ncc/Rack-v0


def main() -> None:
    """Train, save, say what comes next."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000, help="decisions of the whole rack")
    parser.add_argument("--rollout", type=int, default=512, help="decisions between two updates, per environment")
    parser.add_argument("--scenario", default="rack")
    parser.add_argument("--out", default="sb3_ppo.zip")
    args = parser.parse_args()

    torch.set_num_threads(1)  # small networks: more threads are slower
    env = make_vec_env("ncc/Rack-v0", n_envs=4, seed=1, env_kwargs={"scenario": args.scenario})
    model = PPO("MlpPolicy", env, n_steps=args.rollout, batch_size=256, gamma=0.99, ent_coef=0.001, seed=1, verbose=1)
    model.learn(args.steps)
    model.save(args.out)
    env.close()
    print(f"\nncc evaluate controller=[ncc,dctcp,{args.out}] scenario={args.scenario} datapath=packetsim")


if __name__ == "__main__":
    main()
