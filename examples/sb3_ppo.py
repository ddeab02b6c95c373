# SPDX-License-Identifier: BSD-3-Clause
"""PPO of Stable-Baselines3 for hosts that share a policy, and the command that puts it beside NCC and DCTCP.

pip install '.[sb3]'; python sb3_ppo.py [--steps 1000000] [--scenario rack] [--out sb3_ppo.zip]
"""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from ncc.envs.sb3 import HostVecEnv


def main() -> None:
    """Train, save the model, and print the command that evaluates it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="decisions of single hosts")
    parser.add_argument("--rollout", type=int, default=128, help="decisions of each host between two updates")
    parser.add_argument("--scenario", default="rack")
    parser.add_argument("--out", default="sb3_ppo.zip")
    args = parser.parse_args()

    torch.set_num_threads(1)  # small networks: more threads are slower
    env = VecMonitor(HostVecEnv(args.scenario, num_racks=4))
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=args.rollout,
        batch_size=args.rollout * env.num_envs // 4,
        n_epochs=5,
        gamma=0.995,
        ent_coef=0.002,
        seed=1,
        verbose=1,
    )
    model.learn(args.steps)
    model.save(args.out)
    env.close()
    print(f"\nncc evaluate controller=ncc,dctcp,{args.out} scenario={args.scenario} datapath=packetsim")


if __name__ == "__main__":
    main()
