# SPDX-License-Identifier: BSD-3-Clause
"""A policy file run by an agent on each host, as a `RateLimiter` for any datapath.

Each agent decides for its own host, from the host's measurements and from messages of its neighbours and of the switch.
Messages are encoded, signed and checked as on a real network, but pass through memory.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import to_ns
from ncc.envs.scales import scales_of
from ncc.host.agent import Agent
from ncc.host.exchange import Exchange
from ncc.host.guard import Guard, GuardSettings
from ncc.host.keys import Key, Keys
from ncc.host.listener import Listener
from ncc.host.message import UPLINK, Kind, Sender, StateArray
from ncc.host.neighbourhood import OWN, UPLINK_SIGNALS, Neighbourhood, limiter_of
from ncc.host.peers import Address, Peer, peer_at
from ncc.policies.file import PolicyFile

KEYS = Keys.shared(Key(b"agents of one process have no secrets from each other"))
LATE_S = 10.0
"""Age in seconds above which a message is dropped. Agents ignore a state long before, so nothing is dropped for age."""
AGENTS, SWITCHES = 1, 2
"""Ports in the invented addresses of agents and switches, which are used in this process only."""


Boxes = dict[int, deque[bytes]]
"""Messages that wait for each agent of this process, oldest first, by the id of the agent's first host."""


class MemoryExchange(Exchange):
    """An `Exchange` between agents of one process, by boxes that they share.

    Delivery takes no time, and all times are those that the caller passes.
    """

    alone = False

    def __init__(
        self,
        boxes: Boxes,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer] = (),
        *,
        uplink: Peer | None = None,
        kind: Kind = Kind.STATE,
        late_ns: int,
    ) -> None:
        self.inbox = self._listener = Listener(keys, own, peers, uplink, late_ns=late_ns, wall_ns=lambda: 0)
        self.counters["sent"] = 0
        self._boxes, self._name, self._kind = boxes, own[0].id, kind
        self._sender = Sender(keys, own, 0, wall_ns=lambda: 0)
        self._box: deque[bytes] = boxes.setdefault(self._name, deque(maxlen=4 * (len(peers) + 1)))

    def send(self, own: StateArray, now_ns: int) -> None:
        (messages,) = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, now_ns)
        for owner, box in self._boxes.items():
            if owner != self._name:
                box.extend(messages)
        self.counters["sent"] += len(messages)

    def receive(self, now_ns: int) -> None:
        while self._box:
            self._listener.take(memoryview(self._box.popleft()), now_ns)

    def close(self) -> None:
        self._boxes.pop(self._name, None)


class HostAgents:
    """A rate limiter made of an agent for every host of a scenario, each with its own guard.

    Args:
        file: policy by which the agents decide.
        settings: conditions on which a guard suspends the policy.
    """

    def __init__(self, file: PolicyFile, settings: GuardSettings = GuardSettings()) -> None:  # noqa: B008 - frozen
        self.file, self.settings = file, settings
        self.agents: list[Agent] = []
        """Agents made by `reset`, in the order of the scenario's agents."""
        self.said: list[str] = []
        """Sentences of the guards since `reset`, each with the name of its host."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Make new agents for the hosts of a scenario; `seed` has no effect.

        Raises:
            ConfigError: the policy takes another number of neighbours or observes what hosts cannot measure, or the
                scenario is one that `Neighbourhood` refuses.
        """
        header, scales = self.file.header, scales_of(scenario)
        near = scales.neighbours.shape[1]
        if header.neighbours is not None and header.neighbours != near:
            raise ConfigError(
                f"policy {header.name!r} takes exactly {header.neighbours} neighbours and hosts of scenario "
                f"{scenario.name!r} have {near}"
            )
        self.said, self.agents = [], []
        self._period_ns, self._epoch = to_ns(scenario.period_s), 0
        switches = [_peer(area, SWITCHES) for area in range(len(scales.uplink_rate_bps))]
        boxes: list[Boxes] = [{} for _ in switches]
        late_ns = to_ns(LATE_S)
        self._uplinks = [
            MemoryExchange(around, KEYS, (switch,), kind=Kind.UPLINK, late_ns=late_ns)
            for around, switch in zip(boxes, switches, strict=True)
        ]
        for row, area in enumerate(scales.area.tolist()):
            around = scales.neighbours[row].tolist()
            neighbourhood = Neighbourhood(limiter_of(self.file), scenario, [row], around)
            peers = tuple(_peer(other) for other in around)
            exchange = MemoryExchange(boxes[area], KEYS, (_peer(row),), peers, uplink=switches[area], late_ns=late_ns)
            say = self._say_of(scales.names[row])
            guard = Guard(self.settings, header.limits, neighbourhood.link_bps, neighbourhood.fair_bps, say)
            agent = Agent(neighbourhood, guard, exchange, wall_ns=lambda: self._period_ns * self._epoch)
            self.agents.append(agent)

    def decide(self, measurement: Measurement) -> FloatArray:
        """Return limits [n_agents] in bits/s, each decided by its host's agent; inf: no limit.

        The agents then send their hosts' states, which the others receive in the next period.
        """
        self._epoch = measurement.epoch
        now_ns = self._period_ns * (self._epoch + 1)
        limits = np.empty(len(self.agents))
        for row, agent in enumerate(self.agents):
            agent.guard.may_return(now_ns)
            own = {name: getattr(measurement, name)[row : row + 1] for name in OWN}
            limits[row] = agent.decide(own, now_ns)[0]
        for agent in self.agents:
            agent.share(now_ns)
        for area, uplink in enumerate(self._uplinks):
            state = tuple(getattr(measurement, name)[area] for name in UPLINK_SIGNALS)
            uplink.send(np.array([state], UPLINK), now_ns)
        return limits

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """A sentence for each time that a host suspended or resumed the policy; see `ncc.harness.run.run_once`."""
        return tuple(self.said)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts of a run: a text that agents decide, and counts of messages; see `ncc.harness.run.run_once`."""
        messages: dict[str, int] = {}
        for agent in self.agents:
            for name, count in (agent.exchange.counters | agent.counters).items():
                messages[name] = messages.get(name, 0) + count
        return {"decides": "an agent on each host", "messages": messages}

    def _say_of(self, host: str) -> Any:
        return lambda sentence: self.said.append(f"host {host}: {sentence}")


def _peer(row: int, port: int = AGENTS) -> Peer:
    return peer_at(Address(f"127.{row >> 16 & 255}.{row >> 8 & 255}.{row & 255}", port))
