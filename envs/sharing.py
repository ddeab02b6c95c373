# SPDX-License-Identifier: BSD-3-Clause
"""What hosts have heard of each other where messages get lost, neighbours fall silent, or report nothing but zeros."""

import numpy as np
import numpy.typing as npt

from ncc.core.flows import BoolArray
from ncc.core.scenario import Scenario
from ncc.envs.scales import scales_of
from ncc.harness.batch import ObsArray

TOLD = ("throughput", "mean_wait", "bytes", "flows", "next", "limit")
"""What neighbours send of themselves, by column of the observer's vector."""
UPPER = ("upper", "queue")
"""What the upper node sends."""


def reliable(scenario: Scenario) -> bool:
    """Whether everything that is sent arrives and is true."""
    return not (scenario.sharing_loss_frac or scenario.sharing_silent or scenario.sharing_lying)


class Mailbox:
    """The last that each host heard of each neighbour and of the upper node.

    Every period each neighbour, and the upper node, sends its state to each host by a message of its own, which is lost
    with probability `Scenario.sharing_loss_frac`; what was heard last then stays. Nothing comes from the hosts of
    `sharing_silent`, so that they stay as they were at the start: idle; those of `sharing_lying` say they are idle.

    Attributes:
        near: [..., n_agents, neighbours, 6] `TOLD`, in the order of `Scales.neighbours`.
        upper: [..., n_agents, 2] `UPPER`.
        age: [..., n_agents, neighbours + 1] periods since the newest message that arrived was due; the last column is
            the upper node's.
    """

    def __init__(self, scenario: Scenario, at: dict[str, slice], lead: tuple[int, ...]) -> None:
        scales = scales_of(scenario)
        n, near = scales.neighbours.shape
        self._near = np.stack([at[name].start + scales.neighbours for name in TOLD], axis=-1)
        self._upper = np.stack([at[name].start + scales.area for name in UPPER], axis=-1)
        self._loss_frac = scenario.sharing_loss_frac
        silent, lying = (
            np.isin(np.array(scales.names), list(names)) for names in (scenario.sharing_silent, scenario.sharing_lying)
        )
        self._speaks = np.concatenate([~silent[scales.neighbours], np.ones((n, 1), dtype=np.bool_)], axis=1)
        self._true: npt.NDArray[np.float32] = (~lying[scales.neighbours]).astype(np.float32)[..., None]
        self.near: ObsArray = np.zeros((*lead, n, near, len(TOLD)), dtype=np.float32)
        self.upper: ObsArray = np.zeros((*lead, n, len(UPPER)), dtype=np.float32)
        self.age = np.zeros((*lead, n, near + 1), dtype=np.int64)
        self._rngs = [np.random.default_rng(0) for _ in range(lead[0] if lead else 1)]

    def begin(self, state: ObsArray, seed: int, row: int | None = None) -> None:
        """Forget the past of all, or of one of several racks: everybody knows the state [size] at the start."""
        where = () if row is None else (row,)
        self.near[where], self.upper[where] = state.take(self._near, axis=-1), state.take(self._upper, axis=-1)
        self.age[where] = 0
        self._rngs[row or 0] = np.random.default_rng(seed)

    def deliver(self, state: ObsArray) -> None:
        """A period's messages, which tell the state [..., size]."""
        came = self._came()
        told = state.take(self._near, axis=-1) * self._true
        np.copyto(self.near, told, where=came[..., :-1, None])
        np.copyto(self.upper, state.take(self._upper, axis=-1), where=came[..., -1:])
        self.age = np.where(came, 0, self.age + 1)

    def _came(self) -> BoolArray:
        shape = self._speaks.shape
        if not self._loss_frac:
            return np.broadcast_to(self._speaks, self.age.shape)
        drawn = np.stack([rng.random(shape) for rng in self._rngs]).reshape(self.age.shape)
        return np.asarray(self._speaks & (drawn >= self._loss_frac))
