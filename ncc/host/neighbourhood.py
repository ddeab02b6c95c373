# SPDX-License-Identifier: BSD-3-Clause
"""A host's view of its neighbourhood, in the form that the policy was trained on.

A neighbourhood is a `Scenario`, so observer, policy and actions are those of training. In training, a host sees itself
now and its neighbours one period ago. The same holds here: states from neighbours belong to the period before, and are
combined with this host's own measurements of that period. If a neighbour's state does not come, its last one stays in
use, and its age grows.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ncc.agents.policy import NumberPolicy
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement, idle
from ncc.core.scenario import Knows, Nic, Scenario
from ncc.core.signals import shared
from ncc.core.topologies import Dumbbell
from ncc.core.units import MS, US
from ncc.core.value import Count, LineRate, Value
from ncc.core.workload import Fixed, Flow
from ncc.envs.action import RateScale, RateTable, rate_map
from ncc.envs.linux.live import ON_HOSTS
from ncc.envs.observation import SharedObserver, check_on_hosts, reliable
from ncc.envs.scales import scales_of
from ncc.host.message import StateArray
from ncc.host.peers import HOSTS_MOST
from ncc.policies.file import PolicyFile
from ncc.policies.limits import PolicyLimiter

Period = Annotated[float, Meta(ge=1e-4, le=10)]
"""Seconds between decisions."""
LINKS = 3
"""Number of links from a host to one outside its neighbourhood: to the switch, up, and down."""


class NeighbourhoodSpec(Value, frozen=True):
    """Facts of the network that a host cannot measure."""

    hosts: Annotated[int, Meta(ge=1, le=HOSTS_MOST)]
    """Number of hosts of the neighbourhood, this one included."""
    link_rate_bps: LineRate
    """Rate of each host's link."""
    uplink_rate_bps: LineRate
    """Rate of the port that all hosts share on their way out."""
    uplink_buffer_bytes: Count = 512_000
    """Buffer of that port."""
    base_rtt_s: Annotated[float, Meta(gt=0, le=1)] | None = None
    """RTT to a host outside, without other traffic; None: the RTT over links of 10 us each, as in most trainings."""
    period_s: Period = 1 * MS
    knows: Knows = "backlog"
    """Meaning of the bytes that wait in a flow's socket. sizes: all that is left of the flow. backlog: the part that
    the application has written so far. services: see `ncc.core.scenario.Nic.knows`."""

    def scenario(self) -> Scenario:
        """Return a scenario of one such neighbourhood. Its only flow plays no role.

        Raises:
            ConfigError: `base_rtt_s` is less than packets take on links of these rates.
        """
        if self.base_rtt_s is None:
            return self._with(10 * US)
        least_s = float(scales_of(self._with(0.0)).base_rtt_s[0])
        if self.base_rtt_s < least_s:
            raise ConfigError(
                f"--base-rtt must be at least {least_s:.3g} s, which packets take on links of these "
                f"rates without any distance, got {self.base_rtt_s:g} s"
            )
        return self._with((self.base_rtt_s - least_s) / (2 * LINKS))

    def _with(self, delay_s: float) -> Scenario:
        topology = Dumbbell(
            pairs=self.hosts,
            host_rate_bps=self.link_rate_bps,
            bottleneck_rate_bps=self.uplink_rate_bps,
            delay_s=delay_s,
            buffer_bytes=self.uplink_buffer_bytes,
            mark_threshold_bytes=min(30_000, self.uplink_buffer_bytes),
        )
        nothing = Fixed(flows=(Flow(start_s=0.0, src="s0", dst="r0", size_bytes=1),))
        return Scenario(
            name="host",
            topology=topology,
            workload=(("nothing", nothing),),
            duration_s=max(1.0, self.period_s),
            period_s=self.period_s,
            nic=Nic(knows=self.knows),
        )


OWN = ON_HOSTS
"""Names of the signals that a host measures of itself."""
SHARED = tuple(signal.name for signal in shared("host"))
"""Names of the signals that hosts send each other: fields of `ncc.host.message.STATE`."""
UPLINK_SIGNALS = tuple(signal.name for signal in shared("uplink"))
"""Names of the signals of the uplink that are sent to hosts: fields of `ncc.host.message.UPLINK`."""

Columns = Mapping[str, FloatArray | IntArray]
"""Measurements of k hosts in a period: an array [k] for each name in `OWN`."""


def limiter_of(file: PolicyFile) -> PolicyLimiter:
    """Return a limiter that decides by a file's policy. It does not apply the file's bounds, which the guard does.

    Raises:
        ConfigError: the policy observes a signal that hosts do not have.
    """
    header, policy = file.header, file.policy
    check_on_hosts(header.observation)
    actions = rate_map(header.action, header.observation)
    chosen = policy if header.action.n_actions else NumberPolicy(policy.layers)
    return PolicyLimiter(chosen, SharedObserver(header.observation), actions)


def check_fits(file: PolicyFile, spec: NeighbourhoodSpec) -> None:
    """Raise `ConfigError` if a policy cannot serve hosts of such a neighbourhood."""
    header = file.header
    if header.neighbours is not None and header.neighbours != spec.hosts - 1:
        raise ConfigError(
            f"policy {header.name!r} takes exactly {header.neighbours} neighbours and this neighbourhood has "
            f"{spec.hosts - 1}: name as many peers, or take a policy that pools its neighbours"
        )
    if refused := header.refuses_period(spec.period_s):
        raise ConfigError(f"policy {header.name!r} takes another --period: {refused}")


def outside_of(file: PolicyFile, spec: NeighbourhoodSpec) -> str:
    """Return, as text, the facts of a neighbourhood that are outside a policy's ranges; empty if there are none.

    A policy of kind ``residual``, which corrects a formula, has ranges of its own (`ActionSpec.within`). Outside of
    them hosts have the limits of the formula LOCAL. The ranges of any other policy are those of its training.
    """
    return "; ".join((file.header.action.within or file.header.trained).outside(spec.scenario()))


def check_trained(file: PolicyFile, spec: NeighbourhoodSpec) -> None:
    """Raise `ConfigError` if a neighbourhood is outside a policy's ranges (`outside_of`)."""
    if outside := outside_of(file, spec):
        then = "" if file.header.action.within is None else ", with the limits of the formula LOCAL"
        raise ConfigError(
            f"policy {file.header.name!r} was not trained for this network: {outside}; correct the options, "
            f"train a policy for it, or say --outside-training to start all the same{then}"
        )


class Neighbourhood:
    """The decider for the local hosts of a neighbourhood, from their measurements and the states of the other hosts.

    Args:
        limiter: limiter that decides (`limiter_of`).
        scenario: scenario of the hosts, such as `NeighbourhoodSpec.scenario()`.
        local: [k] rows of the local hosts among the scenario's agents.
        peers: [r] rows of the hosts that send their state; all other hosts count as idle.

    Raises:
        ConfigError: the scenario delays messages by more than a period, loses them, or has silent or lying hosts.
    """

    def __init__(self, limiter: PolicyLimiter, scenario: Scenario, local: Sequence[int], peers: Sequence[int]) -> None:
        scales = scales_of(scenario)
        if scenario.sharing_delay_periods != 1 or not reliable(scenario):
            raise ConfigError(
                "Agents on hosts send each other real messages: Scenario.sharing_delay_periods must be 1, and "
                "sharing_loss_frac, sharing_silent and sharing_lying must be left alone"
            )
        self.scenario = scenario
        self.link_bps: FloatArray = scales.link_rate_bps[list(local)]
        """[k] rates of the local hosts' links."""
        self.fair_bps: FloatArray = scales.fair_share_bps[list(local)]
        """[k] the local hosts' fair shares of the uplink."""
        self.base_rtt_s: FloatArray = scales.base_rtt_s[list(local)]
        """[k] base RTTs of the local hosts."""
        observer, actions = limiter.observer, limiter.actions
        assert isinstance(observer, SharedObserver)
        assert isinstance(actions, RateTable | RateScale), "a header allows no other"
        self._limiter, self._observer, self._actions, self._n_peers = limiter, observer, actions, len(peers)
        self._local, self._peers = _rows(local), _rows(peers)
        self._first, self._end = min(local), max(local) + 1
        self._among = _rows([row - self._first for row in local])
        self._area = int(scales.area[local[0]])
        self._uplink_bps = float(scales.uplink_capacity_bps[self._area])
        self._scales = scales
        self._ages = np.zeros(scales.n_agents + len(scales.uplink_rate_bps), np.int64)
        self.reset()

    def reset(self) -> None:
        """Forget all earlier periods."""
        self._before, self._now = self._empty(), self._empty()
        self._limiter.reset(self.scenario, 0)
        self._observer.among(self._first, self._end)
        self._actions.among(self._first, self._end)
        self._begun = False

    def decide(
        self,
        own: Columns,
        in_force_bps: FloatArray,
        peers: StateArray,
        uplink: StateArray | None,
        *,
        ages: IntArray,
        uplink_age: int,
        period: int,
    ) -> FloatArray:
        """Return limits of the local hosts, [k] in bits/s; inf: none.

        Args:
            own: measurements of the local hosts in the period that has just ended.
            in_force_bps: [k] limits in force during that period.
            peers: [r] newest states of the peers.
            uplink: [1] state of the uplink; None: no usable one was received. Then its throughput is taken to be the
                sum over the hosts, at most its rate, and its queue to be empty.
            ages: [r] age of each peer's state in periods, beyond the one period that every state has.
            uplink_age: the same for the uplink's state.
            period: number of the period. It is equal for all hosts of a neighbourhood, which take turns by it.

        Raises:
            DatapathError: a measurement or state is not finite.
            ConfigError: an output of the policy is not finite.
        """
        before, now = self._before.__dict__, self._now.__dict__
        for name in OWN:
            now[name][self._local] = own[name]
        now["rate_limit_bps"][self._local] = in_force_bps
        # Received states were measured a period ago, like this host's own measurements in `before`.
        has_past = self._begun and (self._n_peers > 0 or uplink is not None)
        columns = before if has_past else now
        if self._n_peers:
            for name in SHARED:
                columns[name][self._peers] = peers[name]
        self._put_uplink(columns, uplink)
        self._ages[self._peers] = ages
        self._ages[self._scales.n_agents + self._area] = uplink_age
        obs = self._observer.observe_messages(
            self._now, self._before if has_past else None, ages=self._ages, period=period
        )
        limits = self._actions.rates_bps(self._limiter.policy.act(obs, None), obs)
        self._begun = True
        self._before, self._now = self._now, self._before
        return limits[self._among].copy()

    def _put_uplink(self, columns: dict[str, Any], uplink: StateArray | None) -> None:
        if uplink is None:
            sent_bps = sum(columns["throughput_bps"].tolist())
            columns["uplink_throughput_bps"][self._area] = min(sent_bps, self._uplink_bps)
            columns["uplink_queue_bytes"][self._area] = 0.0
            return
        for name in UPLINK_SIGNALS:
            columns[name][self._area] = uplink[name][0]

    def _empty(self) -> Measurement:
        """Return a measurement in which every host is idle."""
        empty = idle(self._scales.n_agents, len(self._scales.uplink_rate_bps))
        empty.rtt_s[:] = self._scales.base_rtt_s
        return empty


def _rows(rows: Sequence[int]) -> "slice | IntArray":
    """Return an index of these rows of an array. If they are consecutive, it is a slice, which is faster."""
    if rows and list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return np.array(rows, np.int64)
