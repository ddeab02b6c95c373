# SPDX-License-Identifier: BSD-3-Clause
"""A controller under test: a host stack, and who limits the hosts' rates. Classical and learned ones look alike."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ncc.core.value import Name, NonNegative, Value
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import FixedShare, RateLimiter, Unlimited
from ncc.harness.oracles import ALIKE, SLACK_PERIODS, MaxMin, ShortestFirst

Headroom = Annotated[float, Meta(ge=0, lt=1)]


class Limit(Value, frozen=True, tag_field="kind"):
    """Who decides rate limits."""


class Formula(Limit, frozen=True):
    """A limit that is worked out from measurements and needs no file."""

    def build(self) -> RateLimiter:
        """The limiter that this describes."""
        raise TypeError(f"{type(self).__name__} does not say how it is built")


class NoLimit(Formula, frozen=True, tag="none"):
    """Nobody: the transport alone."""

    def build(self) -> RateLimiter:
        return Unlimited()


class ShareLimit(Formula, frozen=True, tag="fixed_share"):
    """The upper port's rate over the number of neighbours, always."""

    def build(self) -> RateLimiter:
        return FixedShare()


class MaxMinLimit(Formula, frozen=True, tag="max_min"):
    """Max-min fair shares with perfect knowledge: `ncc.harness.oracles.MaxMin`."""

    headroom_frac: Headroom = 0.03
    """Of the upper port's rate, left free: frames are larger than the packets that limits count."""

    def build(self) -> RateLimiter:
        return MaxMin(self.headroom_frac)


class ShortestFirstLimit(Formula, frozen=True, tag="shortest_first"):
    """The shortest flow's host first, with perfect knowledge: `ncc.harness.oracles.ShortestFirst`."""

    headroom_frac: Headroom = 0.03
    alike: Annotated[float, Meta(ge=1)] = ALIKE
    """Next flows within this factor count as equally long, and"""
    slack_periods: NonNegative = SLACK_PERIODS
    """those that differ by no more than a link carries in so many periods."""
    floor_frac: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Of its fair share, that a host has in any case."""

    def build(self) -> RateLimiter:
        return ShortestFirst(self.headroom_frac, self.alike, self.floor_frac, self.slack_periods)


AnyFormula = NoLimit | ShareLimit | MaxMinLimit | ShortestFirstLimit


class PolicyLimit(Limit, frozen=True, tag="policy"):
    """A trained policy: a file of the run that is evaluated or, if no run is named, one that comes with the package."""

    path: str = "policy.npz"
    """Relative to the run folder."""
    pretrained: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:+-]*$")] = ""
    """Its name in agents/pretrained, for evaluations without a run; empty: it takes a run."""
    greedy: bool = True
    """False: sample its actions."""
    stack: Literal["trained", "own"] = "trained"
    """What runs below the limit: what the policy was trained on, or the controller's own stack."""


class HostsLimit(PolicyLimit, frozen=True, tag="hosts"):
    """The same as hosts run it: an agent on each, which knows what messages told it (`ncc.host.host_agents`)."""


class ClassLimit(Limit, frozen=True, tag="class"):
    """A Python class of anybody's, by the contract of `ncc.harness.limiter.RateLimiter`, made without arguments."""

    target: Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]
    """``module:Class``, of the current folder or of an installed package."""


class ModelLimit(Limit, frozen=True, tag="model"):
    """A model that others trained on our environments: a file of Stable-Baselines3, or a checkpoint of RLlib."""

    path: Annotated[str, Meta(min_length=1)]
    """Relative to the current folder."""
    env: dict[str, Any] = field(default_factory=dict)
    """Its `observation` and `action` in training (`ncc.envs.make.env_spec`), where they differ from the defaults."""
    greedy: bool = True
    """False: sample its actions."""


AnyLimit = AnyFormula | PolicyLimit | HostsLimit | ClassLimit | ModelLimit


class Controller(Value, frozen=True):
    """What is compared."""

    name: Name
    summary: Annotated[str, Meta(max_length=200)] = ""
    stack: HostStack = HostStack()
    limit: AnyLimit = NoLimit()
