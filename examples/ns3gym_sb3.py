# SPDX-License-Identifier: BSD-3-Clause
"""PPO of Stable-Baselines3 on a simulation that speaks ns3-gym's protocol.

pip install stable-baselines3; python ns3gym_sb3.py "./ns3 run 'my-sim --openGymPort={port} --simSeed={seed}'"
"""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from ncc.envs.ns3gym import Ns3GymEnv


def mean_reward(model, env, steps):
    """Mean reward of a policy per step, over all simulations."""
    obs, earned = env.reset(), 0.0
    for _ in range(steps):
        obs, _, _, _ = env.step(model.predict(obs, deterministic=True)[0])
        earned += env.get_original_reward().mean() / steps
    return earned


def main():
    """Train, and print the mean rewards of the untrained and the trained policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", help="command that starts the simulation")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--judged", type=int, default=500, help="steps for which a policy is judged")
    parser.add_argument("--envs", type=int, default=2, help="number of simulations")
    parser.add_argument("--folder", default=".", help="working directory of the command")
    parser.add_argument("--out", help="file for the trained model")
    args = parser.parse_args()
    torch.set_num_threads(1)  # small networks: more threads are slower
    settings = {"command": args.command, "folder": args.folder}
    env = VecNormalize(make_vec_env(Ns3GymEnv, args.envs, seed=1, env_kwargs=settings))
    model = PPO("MlpPolicy", env, n_steps=256, seed=1, device="cpu")
    untrained = mean_reward(model, env, args.judged)
    model.learn(args.steps)
    trained = mean_reward(model, env, args.judged)
    print(f"mean reward per step: untrained {untrained:.3f}, trained {trained:.3f}")
    if args.out:
        model.save(args.out)
    env.close()


if __name__ == "__main__":
    main()
