# SPDX-License-Identifier: BSD-3-Clause
"""A controller under test: a host stack, and who limits the hosts' rates. Classical and learned ones look alike."""

from typing import Annotated, Literal

from msgspec import Meta

from ncc.core.value import Name, Value
from ncc.harness.datapath import HostStack


class Limit(Value, frozen=True, tag_field="kind"):
    """Who decides rate limits."""


class NoLimit(Limit, frozen=True, tag="none"):
    """Nobody: the transport alone."""


class ShareLimit(Limit, frozen=True, tag="fixed_share"):
    """The upper port's rate over the number of neighbours, always."""


class PolicyLimit(Limit, frozen=True, tag="policy"):
    """A trained policy: a file, relative to the run folder being evaluated."""

    path: str = "policy.npz"
    greedy: bool = True
    """False: sample its actions."""
    stack: Literal["trained", "own"] = "trained"
    """What runs below the limit: what the policy was trained on, or the controller's own stack."""


AnyLimit = NoLimit | ShareLimit | PolicyLimit


class Controller(Value, frozen=True):
    """What is compared."""

    name: Name
    summary: Annotated[str, Meta(max_length=200)] = ""
    stack: HostStack = HostStack()
    limit: AnyLimit = NoLimit()
