# SPDX-License-Identifier: BSD-3-Clause
"""The contract between a datapath and the code that drives it: numpy in, numpy out, one call per period.

A datapath does per-packet work; decisions are made once per period (the split of CCP, Narayan et al., SIGCOMM 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, runtime_checkable

from msgspec import UNSET, Meta, UnsetType

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, PortRecords
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Grants
from ncc.core.scenario import Scenario, Timer
from ncc.core.value import Count, Name, Value


class ComponentStack(Value, frozen=True):
    """The congestion controller of one component of the traffic, its timers and its initial window."""

    component: Name
    """Name of the component in `Scenario.workload`."""
    transport: Name = "dctcp"
    params: tuple[tuple[Name, int], ...] = ()
    """Parameters of `transport`, as in `HostStack`."""
    min_rto_s: Timer | None = None
    """Value in place of `Scenario.transport.min_rto_s`; None, here and below: the scenario's value."""
    initial_rto_s: Timer | None = None
    initial_window_pkts: Count | None = None


class HostStack(Value, frozen=True):
    """The stack of every host below the rate limit: a congestion controller and an order among flows.

    `transport` names a controller of `baselines/` (such as ``dctcp``) or one that the datapath itself provides
    (``ns3::TcpCubic``). `order` is ``fifo`` or one of `baselines/orders/`. `params` and `order_params` override their
    parameters by name. A parameter is an integer, in the unit that the controller or order gives it.
    """

    transport: Name = "dctcp"
    params: tuple[tuple[Name, int], ...] = ()
    order: Name = "fifo"
    order_params: tuple[tuple[Name, int], ...] = ()
    tags: Name = "none"
    """Class and rank of data packets, for ports with classes or programs that serve by rank: ``none``, or one of
    `baselines/tags/`."""
    tag_params: tuple[tuple[Name, int], ...] = ()
    front: Name | UnsetType = UNSET
    """Front end of hosts that ask (docs/requests.md): ``one_all``, the default, or one of `baselines/fronts/`. Unset
    fields are in no file, so that files from before they were added stay the same to the byte."""
    front_params: tuple[tuple[Name, int], ...] | UnsetType = UNSET
    hold: bool = False
    """Flows send only their SYN until their receiver grants a start (`ncc.core.receivers`). This needs a limiter that
    sends grants. A flow that gets no grant starts after two periods, or later if the scenario delays messages. A flow
    without a SYN waits longer, by the time that the network's longest queue takes to drain; on simulators one that fits
    one packet starts at once, unless another such packet of its pair of hosts is under way."""
    answer_frac: Annotated[float, Meta(ge=0, le=1)] | None = None
    """With `hold`, SYN-ACKs carry a start time, which is valid until a grant comes; None: they carry none.

    The start is at once if the payload ahead of the flow is at most this share of the buffer of the receiver's port;
    else when the excess has arrived at the port's rate. Flows to the receiver with no more payload left than this one
    are ahead of it. A flow without a SYN is answered by a message. On linux SYN-ACKs carry nothing: instead, receivers
    say once per period whether new flows may begin at once (`ncc.harness.receivers.Admission`)."""
    components: tuple[ComponentStack, ...] = ()
    """Stacks of those components of the traffic that run another controller than `transport`."""
    messages: Literal["packets", "instant"] = "packets"
    """Transport of messages to and from receivers: as packets through the network or, for an oracle, instantly."""

    @property
    def front_end(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Front end of hosts that ask, and its parameters."""
        return self.front or "one_all", self.front_params or ()

    @property
    def controllers(self) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
        """Pairs of a transport and its parameters: the stack's own, then those of `components`."""
        return ((self.transport, self.params), *((part.transport, part.params) for part in self.components))

    @property
    def transports(self) -> tuple[str, ...]:
        """Names of all transports of the stack, each once."""
        return tuple(dict.fromkeys(transport for transport, _ in self.controllers))

    def check(self) -> None:
        names = [part.component for part in self.components]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"stack.components has {twice[0]!r} twice: give each component of the traffic one stack")
        if self.answer_frac is not None and (not self.hold or self.messages == "instant"):
            raise ConfigError(
                "stack.answer_frac is about flows that wait for packets of their receivers: set stack.hold to true and "
                "stack.messages to packets, or answer_frac to null"
            )


@dataclass(frozen=True)
class Records:
    """Results of a run per flow and per port."""

    flows: FlowRecords
    ports: PortRecords


@runtime_checkable
class Datapath(Protocol):
    """A network that can be stepped.

    Life cycle: `start` (which ends an earlier run), any number of `step`, `finish`, `close`. `close` may be called
    twice and at any time. All errors are those of `ncc.core.errors`; calls in another order raise `DatapathError`.

    A class or factory of datapaths may have an attribute `alone`. It is true if runs take place in real time and need
    the machine to themselves. An evaluation then does them one after the other, whatever its number of workers.
    """

    name: str

    def transports(self) -> tuple[str, ...]:
        """Return the names that `HostStack.transport` may have on this datapath."""
        ...

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build the network at time 0, before anything is sent. `seed` is for the datapath's own random draws.

        Raises:
            UnknownNameError: no such transport, parameter or order; the message lists those that exist.
        """
        ...

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        """Apply limits and run one period.

        Args:
            rate_limits_bps: shape [n_agents], > 0, in the order of `Topology.agent_hosts`; inf means no limit.

        Raises:
            ConfigError: wrong shape, NaN, zero or negative limits, naming the host.
        """
        ...

    def finish(self) -> Records:
        """Return the records up to now; unfinished flows have NaN as `finish_s`."""
        ...

    def close(self) -> None:
        """Free everything; the object may be started again."""
        ...


def tell(datapath: Datapath, grants: Grants) -> None:
    """Let receivers send these grants when the limits of the next `step` take effect.

    This calls the datapath's method `tell(grants)`, which not every datapath has.

    Raises:
        ConfigError: the datapath has no such method, a grant that no host could use, or a scenario without receivers.
    """
    if (send := getattr(datapath, "tell", None)) is None:
        raise ConfigError(f"datapath {datapath.name} has no receivers that tell their senders: use packetsim or ns3")
    send(grants)


def retag(datapath: Datapath, tag_params: Sequence[int]) -> None:
    """Give the tags of all hosts new parameters when the limits of the next `step` take effect.

    This calls the datapath's method `retag(tag_params)`, which not every datapath has. Packets that have a class keep
    it.

    Args:
        datapath: a datapath that is started.
        tag_params: all parameters of the tags, in their order and units (`Decision.tag_params`).

    Raises:
        ConfigError: the datapath has no such method, its hosts have no tags, or the parameters are not theirs.
    """
    if (change := getattr(datapath, "retag", None)) is None:
        raise ConfigError(f"datapath {datapath.name} cannot change tags during a run: use packetsim or ns3")
    change(tag_params)


def announce(datapath: Datapath, decision: FloatArray | Decision) -> FloatArray:
    """Give a datapath everything of a limiter's decision but the limits; return these, for the next `step`.

    Raises:
        ConfigError: as `tell` and `retag`.
    """
    if not isinstance(decision, Decision):
        return decision
    if decision.grants is not None:
        tell(datapath, decision.grants)
    if decision.tag_params is not None:
        retag(datapath, decision.tag_params)
    return decision.limits_bps
