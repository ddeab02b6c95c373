# SPDX-License-Identifier: BSD-3-Clause
"""PPO of plain RLlib: hosts learn multiples of a formula's limits, in pairs of racks with equal flows.

Noise lasts for several periods and has opposite signs in the two racks of a pair. There is no critic.

pip install "ray[rllib]" torch; python rllib_pairs.py [epochs [seed [lists]]]
"""

import sys
from pathlib import Path

import numpy as np
import ray
import torch
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule

from ncc.agents.policy import NumberPolicy
from ncc.envs.action import rate_map
from ncc.envs.make import env_spec
from ncc.envs.observation import SharedObserver
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.vector import RackVectorEnv
from ncc.harness.run import eval_flow_seed, run_once
from ncc.metrics.fct import fct_s
from ncc.policies import PolicyLimiter
from ncc.run.controllers import load_controller

RACKS, ROLLOUT, GAMMA, NOISE, LASTS, RATE, PASSES = 16, 125, 0.97, 0.12, 10, 5e-3, 4
RACK = Path(__file__).with_name("own_incast.yaml")
SETTINGS = {
    "observation": {"neighbours": "ordered", "ages": True},
    "action": {"kind": "residual", "formula": "local_hold", "min_rate_frac": 0.002},
    "reward": {"kind": "backlog", "flows_scale": 1.0},  # minus the unfinished flows
    "stack": {"order": "upsilon", "order_params": [["omega_milli", 500]]},
}


class Hosts(TorchRLModule, ValueFunctionAPI):
    """The policy: a multiple of the formula's limit for each host, with noise of opposite signs in a pair of racks."""

    def setup(self):
        self.hosts, self.calls = self.action_space.shape[0], 0
        seen = self.observation_space.shape[0] // self.hosts
        self.policy = torch.nn.Sequential(torch.nn.Linear(seen, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
        torch.nn.init.zeros_(self.policy[2].weight)  # the number 0 is the formula as it is
        torch.nn.init.zeros_(self.policy[2].bias)

    def gaussian(self, obs):
        mean = torch.tanh(self.policy(obs))
        return torch.cat([mean, torch.full_like(mean, np.log(NOISE))], -1)

    def _forward_exploration(self, batch, **_):
        inputs = self.gaussian(batch["obs"].unflatten(-1, (self.hosts, -1)))
        if self.calls % LASTS == 0:
            drawn = torch.randn(len(inputs) // 2, 1, self.hosts)
            self.noise = torch.cat([drawn, -drawn], 1).flatten(0, 1)
        self.calls += 1
        return {"actions": inputs[..., 0] + NOISE * self.noise, "action_dist_inputs": inputs}

    def _forward_train(self, batch, **_):
        return {"action_dist_inputs": self.gaussian(batch["obs"])}

    def compute_values(self, batch, embeddings=None):
        return torch.zeros(len(batch["obs"]))  # no critic: it would remove the effect of the noise


class EachHost(ConnectorV2):
    """A connector that makes every decision of every host a sample, with the host's return until the rollout ends."""

    def __call__(self, *, episodes, batch, **_):
        rows = {"obs": [], "actions": [], "action_dist_inputs": [], "advantages": []}
        for episode in episodes:
            returns = np.array(
                [info.get("host_rewards", np.zeros(16)) for info in episode.get_infos(slice(1, None))], np.float32
            )
            for t in range(len(returns) - 2, -1, -1):
                returns[t] += GAMMA * returns[t + 1]
            inputs = np.array(episode.get_extra_model_outputs("action_dist_inputs"))
            found = (episode.get_observations(slice(0, len(episode))), episode.get_actions(), inputs, returns)
            for name, array in zip(rows, found, strict=True):
                rows[name].append(np.reshape(array, (returns.size, -1)))
        made = {name: torch.from_numpy(np.concatenate(parts)) for name, parts in rows.items()}
        advantage = made["advantages"][:, 0]
        made["advantages"] = (advantage / (advantage.square().mean().sqrt() + 1e-8)).clip(-3, 3)
        mean = made["action_dist_inputs"][:, :1]
        made["action_logp"] = torch.distributions.Normal(mean, NOISE).log_prob(made["actions"])[:, 0]
        return {"default_policy": made | {"value_targets": torch.zeros_like(advantage)}}


class Learner(PPOTorchLearner):
    """PPO that passes over whole rollouts, as RLlib counts minibatches in racks; its Adam damps tiny gradients."""

    def update(self, *given, **settings):
        return [super(Learner, self).update(*given, **settings) for _ in range(PASSES)][-1]

    def configure_optimizers_for_module(self, module_id, config=None):
        weights = self.get_parameters(self.module[module_id])
        adam = torch.optim.Adam(weights, eps=1e-5)
        self.register_optimizer(module_id=module_id, optimizer=adam, params=weights, lr_or_lr_schedule=config.lr)


def racks(given):
    """Make as many racks as RLlib asks for."""
    return RackVectorEnv(given["num_envs"], RACK, duration_s=0.0375, threads=1, pairs="mean", **SETTINGS)


def trained(epochs, seed):
    """Train, and return the layers of the network: weights and biases."""
    tune.register_env("racks", racks)
    algorithm = (
        PPOConfig()
        .environment("racks", disable_env_checking=True)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=RACKS, rollout_fragment_length=ROLLOUT)
        .env_runners(gym_env_vectorize_mode="vector_entry_point")
        .debugging(seed=seed, log_level="ERROR")
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Hosts))
        .learners(learner_connector=lambda *_: EachHost(), add_default_connectors_to_learner_pipeline=False)
        .training(
            learner_class=Learner, use_critic=False, use_kl_loss=False, num_epochs=1, minibatch_size=None, grad_clip=1.0
        )
        .training(train_batch_size_per_learner=RACKS * ROLLOUT, lr=[[0, RATE], [epochs, RATE / 10]])
        .build_algo()
    )
    for _ in range(-(-epochs // (RACKS * ROLLOUT))):
        algorithm.train()
    weights = algorithm.get_module().get_state()
    algorithm.stop()
    return [(np.asarray(weights[f"policy.{i}.weight"]), np.asarray(weights[f"policy.{i}.bias"])) for i in (0, 2)]


def mean_fct_s(layers, seed):
    """Mean completion time, in seconds, of a list of flows that no training has."""
    spec = env_spec(RACK, duration_s=0.1, **SETTINGS)
    seen, acts = SharedObserver(spec.view.observation), rate_map(spec.view.action, spec.view.observation)
    limiter, hosts = PolicyLimiter(NumberPolicy(layers), seen, acts), load_controller("local_hold")
    run = run_once(PacketsimDatapath(), spec.scenario, hosts, limiter, seed, flow_seed=eval_flow_seed(seed))
    return fct_s(run.flows, run.records.flows, spec.scenario.duration_s + spec.scenario.drain_s).mean()


if __name__ == "__main__":
    ray.init("local", include_dashboard=False, logging_level="ERROR", ignore_reinit_error=True)
    torch.set_num_threads(1)  # small networks: more threads are slower
    given = [int(number) for number in sys.argv[1:]]
    epochs, seed, lists = given + [300_000, 1, 16][len(given) :]
    policy = trained(epochs, seed)
    formula = [(0 * weight, 0 * bias) for weight, bias in policy]
    logs = [np.log(mean_fct_s(policy, number) / mean_fct_s(formula, number)) for number in range(lists)]
    print(f"mean FCT over that of the formula, on {lists} other lists of flows: {np.exp(np.mean(logs)):.3f}")
