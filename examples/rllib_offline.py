# SPDX-License-Identifier: BSD-3-Clause
"""MARWIL of plain RLlib on recorded runs, and the command that puts it beside NCC and DCTCP.

pip install "ray[rllib]" torch
ncc evaluate record=true controller=max_min datapath=packetsim out=recorded
python rllib_offline.py recorded [--updates 1000] [--beta 1] [--out rllib_marwil]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch

from ncc.harness.episodes import read_episodes


class Recorded(OfflineData):
    """Samples of all hosts, held in memory: RLlib's own reader starts processes for each update."""

    def __init__(self, config):
        self.iter_batches_kwargs = {}
        episodes = read_episodes(config.input_)
        self.rows = {
            "obs": np.concatenate([one.obs[:-1].reshape(-1, one.info.obs_dim) for one in episodes]),
            "actions": np.concatenate([one.actions.ravel() for one in episodes]),
            "value_targets": np.concatenate([returns(one.reward, config.gamma).ravel() for one in episodes]),
        }
        self.rng = np.random.default_rng(config.seed)

    def sample(self, num_samples, **_):
        """Draw a batch of hosts' decisions."""
        drawn = self.rng.integers(len(self.rows["actions"]), size=num_samples)
        rows = SampleBatch({name: torch.from_numpy(values[drawn]) for name, values in self.rows.items()})
        return MultiAgentBatch({"default_policy": rows}, num_samples)


def returns(rewards, gamma):
    """Discounted sums of the rewards from each period on, times 1 - gamma, so that they are means per period."""
    sums = (1 - gamma) * rewards
    for t in range(len(sums) - 2, -1, -1):
        sums[t] += gamma * sums[t + 1]
    return sums


def main():
    """Train, save the model, and print the command that evaluates it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", help="folder of ncc evaluate record=true")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=1000, help="decisions of hosts in an update")
    parser.add_argument("--beta", type=float, default=1.0, help="0: imitate, whatever was earned (BC)")
    parser.add_argument("--out", default="rllib_marwil")
    args = parser.parse_args()
    torch.set_num_threads(1)  # small networks: more threads are slower

    info = read_episodes(args.recorded)[0].info
    algorithm = (
        MARWILConfig()
        .environment(
            observation_space=spaces.Box(-np.inf, np.inf, (info.obs_dim,), np.float32),
            action_space=spaces.Discrete(info.n_actions),
        )
        .env_runners(num_env_runners=0, create_local_env_runner=False)
        .offline_data(input_=[args.recorded], offline_data_class=Recorded, dataset_num_iters_per_learner=1)
        .rl_module(rl_module_spec=RLModuleSpec(model_config={"fcnet_hiddens": [64, 64], "vf_share_layers": False}))
        .training(beta=args.beta, gamma=0.95, train_batch_size_per_learner=args.batch, lr=1e-3)
        .training(moving_average_sqd_adv_norm_start=1.0, moving_average_sqd_adv_norm_update_rate=0.01)
        .debugging(seed=1, log_level="ERROR")
        .build_algo()
    )
    for _ in range(args.updates):
        algorithm.train()
    algorithm.save_to_path(str(Path(args.out).resolve()))
    print(f"\nncc evaluate controller=ncc,dctcp,{args.out} scenario={info.scenario} datapath=packetsim")


if __name__ == "__main__":
    main()
