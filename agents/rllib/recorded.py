# SPDX-License-Identifier: BSD-3-Clause
"""Recorded episodes as RLlib takes them: the whole episode of one host at a time, in an order drawn for each pass.

From arrays in memory rather than through ray.data, RLlib's own way to read: that starts actors, stores blocks as
objects, and decodes and buffers episodes, for data that here is tens of MB and read in a second; on a machine of two
cores those actors take the learner's. What RLlib does from an episode on, connectors, loss and optimiser, is the same.
"""

import math
from collections.abc import Sequence

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ncc.agents.rllib.rollout import Float
from ncc.core.seeding import derive_seed, generator
from ncc.harness.episodes import Episode, episodes_digest


class Recorded:
    """Hosts' episodes one after another, without end; equal seeds and positions give equal ones.

    Args:
        episodes: what was recorded.
        seed: decides the order.
        reward_scale: multiplies rewards.
        position: host episodes taken so far, for a training that goes on.

    Attributes:
        digest: of everything that was recorded.
    """

    def __init__(self, episodes: Sequence[Episode], seed: int, reward_scale: float, position: int = 0) -> None:
        self._episodes, self._seed, self.position = episodes, seed, position
        self._rewards = [episode.reward * np.float32(reward_scale) for episode in episodes]
        self._units = [(i, host) for i, episode in enumerate(episodes) for host in range(episode.actions.shape[1])]
        # A host's epoch is its share of one of its rack. Shares are whole: sums of floats would depend on the order.
        self._shares_per_epoch = math.lcm(*(len(episode.info.hosts) for episode in episodes))
        each = [len(e.actions) * self._shares_per_epoch // len(e.info.hosts) for e in episodes]
        self._shares = [each[i] for i, _ in self._units]
        self.digest = episodes_digest(episodes)
        passes, begun = divmod(position, len(self._units))
        self._taken = passes * sum(self._shares) + sum(self._shares[unit] for unit in self._order(passes)[:begun])

    @property
    def taken_epochs(self) -> int:
        """Whole epochs of racks taken so far."""
        return self._taken // self._shares_per_epoch

    def take(self, epochs: int) -> list[SingleAgentEpisode]:
        """The next whole episodes with so many epochs of racks or more."""
        taken: list[SingleAgentEpisode] = []
        upto = self._taken + epochs * self._shares_per_epoch
        while self._taken < upto:
            number, at = divmod(self.position, len(self._units))
            unit = self._order(number)[at]
            i, host = self._units[unit]
            episode = self._episodes[i]
            taken.append(
                SingleAgentEpisode(
                    # With an underscore RLlib leaves the id alone.
                    id_=f"{self.position}_{derive_seed(self._seed, 'rllib', 'offline', 'mix', self.position)}",
                    observations=episode.obs[:, host],
                    infos=[{}] * len(episode.obs),
                    actions=episode.actions[:, host],
                    rewards=self._rewards[i][:, host],
                    terminated=episode.terminated,
                    truncated=episode.truncated,
                    len_lookback_buffer=0,
                )
            )
            self.position += 1
            self._taken += self._shares[unit]
        return taken

    def mean_square_return(self, gamma: float) -> float:
        """Of discounted sums of scaled rewards: the mean squared advantage while the value is 0 everywhere."""
        sums: list[Float] = []
        for rewards in self._rewards:
            following, total = np.zeros_like(rewards), np.zeros_like(rewards[0])
            for t in range(len(rewards) - 1, -1, -1):
                total = rewards[t] + np.float32(gamma) * total
                following[t] = total
            sums.append(following.ravel())
        return float(np.square(np.concatenate(sums)).mean())

    def _order(self, number: int) -> Sequence[int]:
        """Of the host episodes in that pass."""
        if number != self._ordered:
            rng = generator(self._seed, "rllib", "offline", "order", number)
            self._now, self._ordered = rng.permutation(len(self._units)).tolist(), number
        return self._now

    _ordered = -1
    _now: Sequence[int] = ()
