# SPDX-License-Identifier: BSD-3-Clause
"""A controller under test: a host stack and a rate limiter. Classical and learned controllers have the same form."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.value import Count, Name, NonNegative, Positive, Value, digest_of
from ncc.harness.datapath import HostStack
from ncc.harness.flowtune import Flowtune
from ncc.harness.ictcp import Ictcp
from ncc.harness.limiter import FixedShare, RateLimiter, Unlimited
from ncc.harness.local import Local, ShortestFirst
from ncc.harness.oracles import ALIKE, SLACK_PERIODS, MaxMin
from ncc.harness.receivers import AHEAD_FRAC, FLOOR_FRAC, WINDOW_FRAC, ReceiverRule
from ncc.harness.sicc import HubSpeeds

OPPONENT = "dctcp"
"""Name of the controller that others are compared with."""
TUNED = "_tuned"
"""Suffix of the name of a controller that has the settings of a tuned set (`ncc.run.controllers`)."""
Headroom = Annotated[float, Meta(ge=0, lt=1)]


class Limit(Value, frozen=True, tag_field="kind"):
    """Base of the specs of rate limiters."""

    limits_hosts: ClassVar[bool] = True
    """True if the limiter always limits rates of hosts, which have none if only receivers decide."""
    needs_receivers: ClassVar[bool] = False
    """True if the limiter is one of receivers."""


class Formula(Limit, frozen=True):
    """A limiter that computes limits from measurements and needs no file."""

    def constants(self) -> dict[str, Any]:
        """The constants by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def build(self) -> RateLimiter:
        """Build the limiter that these settings describe."""
        raise TypeError(f"{type(self).__name__} must define build()")


class NoLimit(Formula, frozen=True, tag="none"):
    """No limiter: the transport alone."""

    limits_hosts = False

    def build(self) -> RateLimiter:
        return Unlimited()


class ShareLimit(Formula, frozen=True, tag="fixed_share"):
    """A constant limit: the uplink's rate divided by the number of hosts that share the uplink."""

    def build(self) -> RateLimiter:
        return FixedShare()


class MaxMinLimit(Formula, frozen=True, tag="max_min"):
    """Max-min fair shares with perfect knowledge: `ncc.harness.oracles.MaxMin`."""

    headroom_frac: Headroom = 0.03
    """Share of the uplink's rate to leave free: limits count IP packets, and the frames around them are larger."""

    def build(self) -> RateLimiter:
        return MaxMin(self.headroom_frac)


class ShortestFirstLimit(Formula, frozen=True, tag="shortest_first"):
    """The host with the shortest flow first, with perfect knowledge: `ncc.harness.local.ShortestFirst`.

    Hosts are compared by their next flow: the queued flow with the least payload left.
    """

    headroom_frac: Headroom = 0.03
    """Share of the uplink's rate to leave free."""
    alike: Annotated[float, Meta(ge=1)] = ALIKE
    """Factor within which the next flows of two hosts count as equally long."""
    slack_periods: NonNegative = SLACK_PERIODS
    """Difference that is allowed in addition to `alike`, in periods at the rate of the host's link."""
    floor_frac: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Lower bound of a host's limit, as a share of its fair share."""

    def build(self) -> RateLimiter:
        return ShortestFirst(**{**LocalLimit().constants(), **self.constants()})


class LocalLimit(Formula, frozen=True, tag="local"):
    """The host with the shortest flow first, from messages between hosts; `ncc.harness.local.Local` has the equations.

    The defaults are the constants of `ShortestFirstLimit`, without a limit for hosts that are idle or have just become
    busy, and without feedback from the uplink's queue.
    """

    headroom_frac: Annotated[float, Meta(ge=-0.2, lt=1)] = 0.03
    """Share of the uplink's rate to leave free; below 0, hosts may use more than this rate together."""
    alike: Annotated[float, Meta(ge=1)] = ALIKE
    """Factor within which the next flows of two hosts count as equally long."""
    slack_periods: NonNegative = SLACK_PERIODS
    """Difference that is allowed in addition to `alike`, in periods at the rate of the host's link."""
    floor_frac: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Lower bound of a host's limit after `hold_periods`, as a share of its fair share."""
    tie_frac: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Weight of a rotating order among equal hosts; 0: they share the rate, 1: they go one after the other."""
    ahead_periods: NonNegative = 0.0
    """Backlog ahead of a host below which it may send at its link's rate, in periods of the uplink's capacity."""
    queue_gain: Annotated[float, Meta(ge=-1, le=4)] = 0.0
    """Share of the uplink's capacity that is taken away for each period of queue beyond `queue_periods`."""
    queue_periods: NonNegative = 0.2
    """Target queue at the uplink, in periods of its rate."""
    hold_periods: NonNegative = 0.0
    """Number of periods, from the time when a host becomes busy, in which `hold_frac` bounds its limit."""
    hold_frac: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Upper bound of a host's limit during `hold_periods`, as a share of the uplink's capacity."""
    idle_frac: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of its link's rate at which an idle host may start to send; 1: no limit."""
    attained_frac: NonNegative = 0.0
    """Weight of the bytes that a host has sent since it became busy, added to the bytes left of its next flow."""

    def build(self) -> RateLimiter:
        return Local(**self.constants())


class ReceiverRuleLimit(Formula, frozen=True, tag="receiver_rule"):
    """Start times that receivers grant to the flows to them: `ncc.harness.receivers.ReceiverRule`."""

    limits_hosts = False
    needs_receivers = True

    ahead_frac: Annotated[float, Meta(ge=0, lt=1)] = AHEAD_FRAC
    """Bytes that may lie ahead of a flow when it starts, as a share of the buffer of the receiver's down port (the
    switch's port to the receiver)."""
    window_frac: Annotated[float, Meta(gt=0, le=1)] = WINDOW_FRAC
    """Most bytes of a flow without an ACK, as a share of that buffer. With `ahead_frac` it must not exceed 1."""
    floor_frac: Annotated[float, Meta(gt=0, le=1)] = FLOOR_FRAC
    """Share of the port's rate that a flow keeps if it has started and other flows have overtaken it."""
    headroom_frac: Headroom = 0.03
    """Share of the port's rate to leave free."""
    tolerance_s: Annotated[float, Meta(ge=0, le=1)] = 50e-6
    """Change of a start time, in seconds, above which a new grant is sent."""
    order: Literal["remaining", "arrival"] = "remaining"
    """Order of the flows to a receiver. remaining: the flow with the least payload left is first. arrival, for hosts
    that do not know sizes: the oldest flow is first, and flows of which more than 100 KB have arrived are last."""

    def check(self) -> None:
        if self.ahead_frac + self.window_frac > 1:
            raise ConfigError(
                f"controller.limit.ahead_frac and window_frac must be at most 1 together, or the data in flight does "
                f"not fit the buffer, got {self.ahead_frac} and {self.window_frac}"
            )

    def build(self) -> ReceiverRule:
        return ReceiverRule(**self.constants())


class IctcpLimit(Formula, frozen=True, tag="ictcp"):
    """Receive windows of connections, by the capacity of a receiver's link: `ncc.harness.ictcp.Ictcp`."""

    limits_hosts = False
    needs_receivers = True

    use_frac: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """Share of the receiver's link that may be used."""
    grow_gap_frac: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """Gap between expected and measured throughput up to which a window may grow."""
    shrink_gap_frac: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Gap above which a window may fall."""
    fair_frac: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """Free share of the link below which windows above the mean fall."""
    least_pkts: Count = 2
    """Least window in full packets, with which a connection begins."""
    rtt_s: Positive | None = None
    """RTT without queues; null: that of a full packet between hosts at one switch."""

    def build(self) -> Ictcp:
        return Ictcp(**self.constants())


class FlowtuneLimit(Formula, frozen=True, tag="flowtune"):
    """Rates of pairs of hosts, set by one allocator that knows all flows: `ncc.harness.flowtune.Flowtune`."""

    limits_hosts = False
    needs_receivers = True

    gamma: Annotated[float, Meta(gt=0, le=1)] = 0.4
    """Step size of the prices' updates; from about 1 on they need not converge."""
    rounds: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Updates of the prices per period; the paper's allocator makes one in 10 us."""
    use_frac: Annotated[float, Meta(gt=0, le=1)] = 0.97
    """Share of the links' rates to allocate."""
    tolerance_frac: NonNegative = 0.05
    """Change of a pair's rate, relative to its last grant, above which a new grant is sent."""

    def build(self) -> Flowtune:
        return Flowtune(**self.constants())


class SiccLimit(Formula, frozen=True, tag="sicc"):
    """Speeds of the hubs that send to a front end (wang2021 section 3.1.2): `ncc.harness.sicc.HubSpeeds`."""

    limits_hosts = False
    needs_receivers = True

    use_frac: Annotated[float, Meta(gt=0, le=1)] = 0.97
    """Share of the front end's line that hubs may use, in IP packets."""
    full_frac: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """Share of its speed from which on a hub counts as one that could use more; 1 is the thesis' (eq. 3.3)."""
    threshold_frac: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """T: queue of the port into the rack, as a share of its buffer, from which on the planned bandwidth falls."""
    cut_frac: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """beta of eq. 3.5."""
    rise_frac: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """alpha of eq. 3.6."""

    def build(self) -> HubSpeeds:
        return HubSpeeds(**self.constants())


AnyFormula = (
    NoLimit
    | ShareLimit
    | MaxMinLimit
    | ShortestFirstLimit
    | LocalLimit
    | ReceiverRuleLimit
    | IctcpLimit
    | FlowtuneLimit
    | SiccLimit
)


class PolicyLimit(Limit, frozen=True, tag="policy"):
    """A trained policy: that of the run folder under evaluation or, if there is none, one from the package."""

    path: str = "policy.ncc"
    """Path relative to the run folder."""
    pretrained: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:+-]*$")] = ""
    """Name of a policy in agents/pretrained, for evaluations without a run; empty: the run's policy."""
    greedy: bool = True
    """Choose the most likely action; false: sample."""
    stack: Literal["trained", "own"] = "trained"
    """Host stack under the limit. trained: the stack that the policy was trained with. own: the controller's."""


class HostsLimit(PolicyLimit, frozen=True, tag="hosts"):
    """A policy that runs as on real hosts (`ncc.host.host_agents`).

    Each host has an agent, which knows only its own host and the messages that it receives.
    """


class ClassLimit(Limit, frozen=True, tag="class"):
    """A user's Python class that implements `ncc.harness.limiter.RateLimiter`; it is called without arguments."""

    limits_hosts = False  # it may return grants alone

    target: Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]
    """Class as ``module:Class``, in the current folder or in an installed package."""


class ModelLimit(Limit, frozen=True, tag="model"):
    """A model that a user trained on our environments: a file of Stable-Baselines3 or a checkpoint of RLlib."""

    path: Annotated[str, Meta(min_length=1)]
    """Path relative to the current folder."""
    env: dict[str, Any] = field(default_factory=dict)
    """Arguments `observation`, `action` and `pairs` (`ncc.envs.make.env_spec`) of the environment that the model was
    trained on, if they differ from the defaults."""
    greedy: bool = True
    """Choose the most likely action; false: sample."""


AnyLimit = AnyFormula | PolicyLimit | HostsLimit | ClassLimit | ModelLimit


class Controller(Value, frozen=True):
    """A controller that evaluations compare."""

    name: Name
    summary: Annotated[str, Meta(max_length=200)] = ""
    stack: HostStack = HostStack()
    limit: AnyLimit = NoLimit()
    receivers: ReceiverRuleLimit | None = None
    """Receiver rule in addition to `limit`, which then limits hosts at their uplink; None: there is no such rule."""

    def check(self) -> None:
        if self.receivers is not None and isinstance(self.limit, ReceiverRuleLimit):
            raise ConfigError(f"controller {self.name!r} has the rule of receivers as its limit: leave `receivers` out")

    def placed(self, scenario: Scenario) -> Scenario:
        """Return the scenario that the controller runs in: if `receivers` is set, receivers exchange messages as well.

        `Scenario.neighbourhoods` is then `both`; else the scenario is unchanged.

        Raises:
            ConfigError: a host of the scenario is not linked to a switch, which a receiver rule needs.
        """
        if self.receivers is None or scenario.neighbourhoods == "both":
            return scenario
        return scenario.replace(neighbourhoods="both")

    def over(self, stack: HostStack) -> "Controller":
        """Return this controller with another host stack: the one with which its policy or model was trained.

        This controller's own `stack.components` are kept. If `receivers` is set, so are its own `stack.hold`,
        `stack.answer_frac` and `stack.messages`.
        """
        kept = ("components", *(("hold", "answer_frac", "messages") if self.receivers is not None else ()))
        return self.replace(stack=stack.replace(**{name: getattr(self.stack, name) for name in kept}))

    def digest(self) -> str:
        """Return a digest of all fields.

        Fields that later versions added count only if they differ from their defaults, so older digests stay valid.
        """
        plain = self.to_dict()
        for key, default in (
            ("hold", False),
            ("answer_frac", None),
            ("messages", "packets"),
            ("components", ()),
            ("tags", "none"),
            ("tag_params", ()),
        ):
            if plain["stack"][key] == default:
                del plain["stack"][key]
        if plain["receivers"] is None:
            del plain["receivers"]
        return digest_of(plain)
