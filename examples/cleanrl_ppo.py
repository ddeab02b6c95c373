# SPDX-License-Identifier: BSD-3-Clause
"""PPO in one file, after CleanRL's: a rate for each host, on four racks at once. The result is a controller for ncc.

pip install '.[torch]'; python cleanrl_ppo.py [updates], then in the same folder
ncc evaluate controller=ncc,dctcp,cleanrl_ppo:TrainedAgent scenario=rack datapath=packetsim
"""

import sys

import gymnasium
import torch

import ncc  # noqa: F401 - registers ncc/RackBox-v0
from ncc.envs.model import ModelLimiter

WEIGHTS, RACKS, ROLLOUT, GAMMA, LAMBDA, CLIP = "cleanrl_ppo.pt", 4, 256, 0.99, 0.95, 0.2


class Agent(torch.nn.Module):
    """A Gaussian policy and a value function; its spaces, `reset` and `act` make it an `ncc.envs.model.Model`."""

    def __init__(self, seen, decided, weights=None):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(-1.0, 3.0, (seen,))
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (decided,))
        self.body = torch.nn.Sequential(torch.nn.Linear(seen, 64), torch.nn.Tanh(), torch.nn.Linear(64, decided + 1))
        self.load_state_dict(weights or self.state_dict())
        self.reset = torch.manual_seed

    def forward(self, obs):
        out = self.body(obs)
        return torch.distributions.Normal(out[..., :-1], 0.5), out[..., -1]

    def act(self, obs, *, greedy):
        policy, _ = self(torch.as_tensor(obs))
        return (policy.mean if greedy else policy.sample()).clamp(-1, 1).detach().numpy()


class TrainedAgent(ModelLimiter):
    """The controller of the policy that this file has trained and saved."""

    files = (WEIGHTS,)  # with other weights it is another controller

    def __init__(self):
        super().__init__(Agent(**torch.load(WEIGHTS)), {}, WEIGHTS)


if __name__ == "__main__":
    torch.set_num_threads(1)  # small networks: more threads are slower
    env = gymnasium.make_vec("ncc/RackBox-v0", num_envs=RACKS, scenario="rack")
    sizes = {"seen": env.single_observation_space.shape[0], "decided": env.single_action_space.shape[0]}
    agent = Agent(**sizes)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    obs, ended = torch.as_tensor(env.reset(seed=1)[0]), torch.zeros(RACKS, dtype=torch.bool)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        rows = []
        with torch.no_grad():
            for _ in range(ROLLOUT):
                policy, value = agent(obs)
                action = policy.sample()
                seen, reward, terminated, truncated, _ = env.step(action.clamp(-1, 1).numpy())
                over, reward = torch.as_tensor(terminated | truncated), torch.as_tensor(reward).float()
                rows.append((obs, action, policy.log_prob(action).sum(-1), value, reward, over, ~ended))
                obs, ended = torch.as_tensor(seen), over
            before, action, logp, value, reward, over, counts = map(torch.stack, zip(*rows, strict=True))
            gain, later, after = torch.zeros_like(reward), 0.0, torch.cat([value[1:], agent(obs)[1][None]])
        for t in reversed(range(ROLLOUT)):  # episodes end by time: the state at the end has a value too
            gain[t] = later = reward[t] + GAMMA * after[t] - value[t] + GAMMA * LAMBDA * later * ~over[t]
        data = before, action, logp, gain + value, (gain - gain.mean()) / gain.std()
        before, action, logp, target, gain = (x[counts] for x in data)  # not steps that only begin an episode
        for part in torch.cat([torch.randperm(len(before)) for _ in range(5)]).split(256):
            policy, value = agent(before[part])
            ratio = (policy.log_prob(action[part]).sum(-1) - logp[part]).exp()
            clipped = torch.min(ratio * gain[part], ratio.clamp(1 - CLIP, 1 + CLIP) * gain[part])
            optimizer.zero_grad()
            (0.5 * (value - target[part]).square().mean() - clipped.mean()).backward()
            optimizer.step()
        print(f"mean reward {reward[counts].mean():.4f}")
    torch.save({**sizes, "weights": agent.state_dict()}, WEIGHTS)
