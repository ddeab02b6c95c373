# SPDX-License-Identifier: BSD-3-Clause
"""PPO in one file, after CleanRL's: hosts learn multiples of a formula's limits, in pairs of racks with equal flows.

pip install '.[sb3]'
python cleanrl_pairs.py [--periods 300000] [--seed 1] [--out cleanrl_pairs.ncc]
"""

import argparse
from pathlib import Path

import torch

from ncc.agents.policy import save_policy
from ncc.envs.sb3 import HostVecEnv

RACKS, ROLLOUT, GAMMA, CLIP = 16, 125, 0.97, 0.2
SCENARIO = Path(__file__).with_name("own_incast.yaml")
SETTINGS = {
    "stack": {"transport": "dctcp", "order": "upsilon", "order_params": [["omega_milli", 500]]},
    "observation": {"neighbours": "ordered", "ages": True},
    "action": {"kind": "residual", "formula": "local_hold", "min_rate_frac": 0.002},  # multiples of a formula's limits
    "reward": {"kind": "backlog", "flows_scale": 1.0},  # minus unfinished flows
}


class Agent(torch.nn.Module):
    """A host's Gaussian policy, without a critic: the reward is already less that of the copy with opposite noise."""

    def __init__(self, seen):
        super().__init__()
        self.actor = torch.nn.Sequential(torch.nn.Linear(seen, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
        for weights in self.actor[2].parameters():
            torch.nn.init.zeros_(weights)  # the number 0 is the formula as it is

    def forward(self, obs):
        return torch.distributions.Normal(self.actor(obs).tanh(), 0.17)


@torch.no_grad()
def waited(agent, periods=1000):
    """Sum of the completion times, in periods, of flows that no training has."""
    env = HostVecEnv(SCENARIO, num_racks=RACKS, purpose="held_out", duration_s=periods * 1e-4, threads=1, **SETTINGS)
    obs, total = env.reset(), 0.0
    for _ in range(periods):
        obs, reward, _, _ = env.step(agent(torch.as_tensor(obs)).mean.numpy())
        total -= reward.sum()
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--periods", type=int, default=300_000, help="periods, summed over the racks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="cleanrl_pairs.ncc")
    args = parser.parse_args()
    updates = args.periods // (RACKS * ROLLOUT)
    torch.set_num_threads(1)  # small networks: more threads are slower
    torch.manual_seed(args.seed)
    env = HostVecEnv(
        SCENARIO, num_racks=RACKS, seed=args.seed, duration_s=0.0375, pairs="mirror", threads=1, **SETTINGS
    )
    agent = Agent(env.observation_space.shape[0] - 1)
    optimizer = torch.optim.Adam(agent.parameters(), eps=1e-5)
    formula, obs = waited(agent), env.reset()
    for update in range(updates):
        optimizer.param_groups[0]["lr"], rows = 0.005 * (1 - 0.9 * update / updates), []
        with torch.no_grad():
            for _ in range(ROLLOUT):
                seen, noise = torch.as_tensor(obs[:, :-1]), torch.as_tensor(obs[:, -1:])  # the policy sees no noise
                policy = agent(seen)
                action = policy.mean + policy.stddev * noise  # in place of policy.sample()
                obs, reward, over, _ = env.step(action.numpy())
                rows.append((seen, action, policy.log_prob(action), torch.as_tensor(reward), torch.as_tensor(over)))
            seen, action, logp, reward, over = map(torch.stack, zip(*rows, strict=True))
            gain, later = torch.zeros_like(logp), 0.0
            for t in reversed(range(ROLLOUT)):
                gain[t, :, 0] = later = reward[t] + GAMMA * later * ~over[t]
        data = seen, action, logp, (gain - gain.mean()) / (gain.std() + 1e-8)
        seen, action, logp, gain = (x.flatten(0, 1) for x in data)
        for part in torch.cat([torch.randperm(len(seen)) for _ in range(4)]).split(8000):
            ratio = (agent(seen[part]).log_prob(action[part]) - logp[part]).exp()
            clipped = torch.min(ratio * gain[part], ratio.clamp(1 - CLIP, 1 + CLIP) * gain[part])
            optimizer.zero_grad()
            (-clipped.mean()).backward()
            torch.nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
            optimizer.step()
    weights = [parameter.detach().numpy() for parameter in agent.parameters()]
    save_policy(Path(args.out), list(zip(weights[::2], weights[1::2], strict=True)), SETTINGS)
    print(f"held-out flows take {waited(agent) / formula:.2f} of the formula's time")
