# SPDX-License-Identifier: BSD-3-Clause
"""Recorded episodes in RLlib's form: the whole episode of one host at a time, in an order drawn for each pass.

They are read from arrays in memory. RLlib's own way, ray.data, starts actors, stores blocks as objects, and decodes and
buffers episodes, for data that is tens of MB and read in a second; on two cores those actors slow down the learner.
From the episode on, connectors, loss and optimiser are RLlib's.
"""

import math
from collections.abc import Sequence

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ncc.agents.rllib.rollout import Float
from ncc.core.seeding import derive_seed, generator
from ncc.harness.episodes import Episode, episodes_digest


class Recorded:
    """Hosts' episodes in an endless sequence; equal seeds and positions give equal sequences.

    Args:
        episodes: the recorded episodes.
        seed: determines the order.
        reward_scale: multiplies rewards.
        position: host episodes taken so far, for a resumed training.

    Attributes:
        digest: SHA-256 of all recordings.
    """

    def __init__(self, episodes: Sequence[Episode], seed: int, reward_scale: float, position: int = 0) -> None:
        self._episodes, self._seed, self.position = episodes, seed, position
        self._rewards = [episode.reward * np.float32(reward_scale) for episode in episodes]
        self._units = [(i, host) for i, episode in enumerate(episodes) for host in range(episode.actions.shape[1])]
        # A host's epoch is a fraction of a rack's. Shares are integers, because sums of floats would depend on the
        # order.
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
        """Take the next whole episodes, until they have at least this many epochs of racks."""
        taken: list[SingleAgentEpisode] = []
        upto = self._taken + epochs * self._shares_per_epoch
        while self._taken < upto:
            number, at = divmod(self.position, len(self._units))
            unit = self._order(number)[at]
            i, host = self._units[unit]
            episode = self._episodes[i]
            taken.append(
                SingleAgentEpisode(
                    # RLlib does not change an id that has an underscore.
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
        """Mean square of discounted sums of scaled rewards: that of the advantages while the value is 0."""
        sums: list[Float] = []
        for rewards in self._rewards:
            following, total = np.zeros_like(rewards), np.zeros_like(rewards[0])
            for t in range(len(rewards) - 1, -1, -1):
                total = rewards[t] + np.float32(gamma) * total
                following[t] = total
            sums.append(following.ravel())
        return float(np.square(np.concatenate(sums)).mean())

    def _order(self, number: int) -> Sequence[int]:
        """Order of the host episodes in that pass."""
        if number != self._ordered:
            rng = generator(self._seed, "rllib", "offline", "order", number)
            self._now, self._ordered = rng.permutation(len(self._units)).tolist(), number
        return self._now

    _ordered = -1
    _now: Sequence[int] = ()
