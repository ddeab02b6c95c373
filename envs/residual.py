# SPDX-License-Identifier: BSD-3-Clause
"""Formulas for a host's limit from its observation, which a policy multiplies: `ActionSpec.kind` ``residual``.

``local``: 0.97 of the host's "share among alike" (`ncc.envs.observation`), and at least 0.97 of a tenth of its fair
share. There is no limit if that share is the rate of its link, or if nothing is queued. ``local_hold`` adds a limit for
a host that had nothing queued when its neighbours sent their last messages, as in the first period of a burst: a tenth
of 0.97 of the uplink's rate. These two are the limits of `ncc.harness.local.Local` with the constants of both
controllers. ``local_tuned`` is the number "tuned limit" of the observation.

A guard bounds the decision of a policy. Training, evaluations and hosts share its rules:

- **Alone.** If the last messages show no busy neighbour, a host that was busy itself gets at least the rate of its
  port: the lower of the uplink's and the link's rate. The policy may hold back a host that was idle then, until its
  first period with flows is over; but not if recent bursts had less than half another sender on average (`LONE`), or
  if no host has begun yet.
- **First.** The host whose next flow is first in the shared order gets at least this rate too, from its second period
  on, while the queue of the uplink is short.
- **Stale.** A host that has missed a neighbour's messages for `STALE_PERIODS` gets the limit of ``local``. It must
  therefore observe the ages of messages in networks that may lose them.
- **Unknown.** In a network outside `ncc.envs.ranges.TrustedRanges` all hosts get the limits of ``local``.
- **Waiting.** A host whose "wasted room" is above `WASTED` gets at least the limit of ``local``. Such a host had flows
  queued for three periods or more in which less than half of the uplink was used. As long as this goes on, it is held
  back in at most one of six periods, so the hosts of a rack cannot all keep holding back.
"""

from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.envs.observation import ObservationSpec, aged, columns_of, reliable
from ncc.envs.ranges import TrustedRanges
from ncc.envs.scales import scales_of
from ncc.harness.controller import LocalLimit

USE_FRAC = 1 - LocalLimit().headroom_frac
"""Fraction of the uplink that the formulas give to hosts: frames are larger than the packets that limits count."""
LEAST_SHARE = LocalLimit().floor_frac
"""Fraction of its fair share that the formulas always leave a host."""
HOLD_FRAC = 0.1
"""Fraction of `USE_FRAC` of the uplink's rate that ``local_hold`` leaves a host in the first period of a burst."""
STALE_PERIODS = 3
"""Age of a neighbour's last message, beyond the delay of sharing, from which a policy is not trusted."""
LONE = 0.5 / 8
"""Value of the observed "begin together" below which a host counts as the only sender of its bursts: it stands for half
another sender on average."""
SHORT_QUEUE = 0.3
"""Value of the observed "uplink queue" below which the queue is short: 2.5 packets where the buffer holds 67. The scale
is logarithmic, so a larger buffer has a longer short queue."""
WASTED = 1.0
"""Value of the observed "wasted room" above which a host is not held back."""
LINE_RATE = 0.999
"""Fraction of the link's rate from which on a limit counts as no limit."""

# In the order of rates.h.
_SEEN = (
    "queued_flows",
    "queued flows before",
    "share among alike",
    "fair share",
    "busy share",
    "wasted room",
    "tuned limit",
    "begin together",
    "hosts before",
    "uplink queue",
)


def formula_columns(observation: ObservationSpec) -> tuple[int, ...]:
    """Return the columns of an observation from which rates.h computes the formulas; an observed age comes last.

    Raises:
        ConfigError: the observation lacks one of them.
    """
    found = columns_of(observation, _SEEN)
    if found is None:
        lacks = [name for name in _SEEN if name in observation.leave_out]
        raise ConfigError(
            "action.kind 'residual' needs observation.neighbours 'ordered', from which its formula and its guard are "
            f"computed, got {observation.neighbours!r}"
            + (f" with observation.leave_out of {', '.join(lacks)}, which they read" if lacks else "")
        )
    return found + (columns_of(observation, ("age max",)) or ())


def formula_numbers(seen: tuple[int, ...], scenario: Scenario, within: TrustedRanges | None) -> dict[str, Any]:
    """Return the numbers of a scenario's hosts, of the formula and of the guard that rates.h needs.

    Args:
        seen: columns from `formula_columns`.
        scenario: the scenario of the hosts.
        within: the networks in which policies are trusted; None: all.

    Raises:
        ConfigError: messages may get lost there, and their ages are not observed.
    """
    if len(seen) == len(_SEEN) and not reliable(scenario):
        raise ConfigError(
            f"messages may get lost in scenario {scenario.name!r}, and a residual is not to be trusted without "
            "them: set observation.ages to true, or let none get lost"
        )
    scales = scales_of(scenario)
    uplink_frac = scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps
    return {
        "use_frac": USE_FRAC,
        "least_share": LEAST_SHARE,
        "wasted": WASTED,
        "held": HOLD_FRAC * USE_FRAC * uplink_frac,
        "port": np.minimum(uplink_frac, 1.0),
        "trusted": within is None or not within.outside(scenario),
        "stale": aged(STALE_PERIODS - 0.5),
        "lone": LONE,
        "short_queue": SHORT_QUEUE,
        "line_rate": LINE_RATE,
    }
