# SPDX-License-Identifier: BSD-3-Clause
"""Rewards of hosts in each period. Each spec is a frozen value, whose equation observation/rewards.h computes.

All rewards are dimensionless: rates are divided by the host's link rate, delays by the base RTT of `Scales`. A host
that had nothing to send or deliver in the period is *idle*: its own part is 0, because a lack of demand is no failure.
In the rewards here a busy host's own part is at most 0, so that work that ends sooner costs less; another reward may
differ. `throughput_bps` counts only packets that leave the neighbourhood.
"""

from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.signals import Measured
from ncc.core.value import Fraction, NonNegative, Positive, Value
from ncc.envs.observation.observer import extension
from ncc.envs.scales import scales_of

RewardArray = npt.NDArray[np.float32]
SIGNALS = ("goodput_bps", "rtt_s", "rate_limit_bps", "active_flows", "active_left", "active_per_byte")
"""Signals of a measurement that rewards are made of, in the order of rewards.h."""


class Utility(Value, frozen=True, tag_field="kind", tag="utility"):
    """Throughput against delay, U = ln x - rho ln d (wang2021 eq. 5.1, 5.2).

    x is goodput / link rate, clipped to [`floor_frac`, 1] (a busy host that delivered nothing would have ln 0);
    d is mean RTT / base RTT, at least 1. Host n gets (1 - team_frac) U_n + team_frac * mean of U over its
    neighbourhood.

    `team_frac` 1 is the global objective (5.2). The paper's M/M/1 model has d = 1/(C - sum x). The maximum of
    the objective is there at x = C / (N (1 + rho)), where the derivative 1/x - N rho / (C - N x) is 0 (eq. 5.6 prints +
    for -, and 5.7 follows it). `team_frac` 0 is selfish: the Nash equilibrium, where 1/x = rho / (C - N x), is
    x = C / (N + rho), which has a longer queue. The default is halfway, because with the global objective alone the
    rewards of the other hosts are noise to a host.
    """

    rho: NonNegative = 0.5
    """Weight of delay."""
    team_frac: Fraction = 0.5
    """Weight of the neighbourhood's mean; the host's own part has the rest."""
    floor_frac: Annotated[float, Meta(gt=0, lt=1)] = 1e-3
    """Smallest goodput that counts, as a fraction of the link's rate."""


class ProfitPenalty(Value, frozen=True, tag_field="kind", tag="profit_penalty"):
    """Profit - Penalty (wang2021 eq. 5.18-5.20), with units and guards.

    The printed equations add bits/s to logarithms of bits/s and seconds, and are singular at g = 0 and b = C. The
    symbols here are: b the limit (no limit counts as the link rate), g goodput, d mean RTT and C the uplink's rate.

    All of b, g and d are of the measured period; the paper pairs the new b with g and d of the period before, which a
    reward for the action just taken cannot do. g is goodput, where the paper has the actual sending rate. It is the
    goodput of everything that the host sends, also to neighbours, while b limits packets that leave the neighbourhood.

    Profit_n = mean over the neighbourhood of (b_i/g_i) ln b_i - rho ln d_i, 0 for an idle host. b and g are fractions
    of the link rate, so ln b <= 0: a limit that leaves much undelivered (b/g > 1) costs more. Guards: b/g in [0,
    `ratio_max`], d at least one base RTT. It is the mean, not the sum, so that the size of the rack does not change its
    scale; the sum of g_z in the penalty is divided by the uplink's rate, which makes it a utilisation.

    Penalty_n = sigma1 * (sum_{z != n} g_z / C) / max(1 - b_n/C, `slack_min_frac`) * b_n/C
    + sigma2 * max(max_{z != n} d_z / sla_delay_s - 1, 0) * d_n / sla_delay_s, 0 for an idle host. Guards: the divisor's
    floor; only busy neighbours' delays; and no negative second term, which would pay a host for its own delay while
    its neighbours keep the SLA.
    """

    rho: NonNegative = 0.5
    """Weight of delay in the profit."""
    sigma1: NonNegative = 0.5
    """Weight of crowding the uplink."""
    sigma2: NonNegative = 0.5
    """Weight of lateness beyond the SLA."""
    sla_delay_s: Positive = 1e-3
    """Delay of the SLA in seconds."""
    ratio_max: Positive = 10.0
    """Largest limit / goodput that counts."""
    slack_min_frac: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Smallest free fraction of the uplink in the divisor."""


class Backlog(Value, frozen=True, tag_field="kind", tag="backlog"):
    """Minus the number of the host's unfinished flows, divided by `flows_scale`.

    `team_frac` is the weight of the neighbourhood's mean in the reward; the host's own part has the rest.

    By Little's law the time average of unfinished flows is the arrival rate times the mean flow completion time (FCT).
    The sum of this reward over an episode is therefore minus the mean FCT, up to a constant factor.
    """

    flows_scale: Positive = 10.0
    """Number of unfinished flows that costs 1."""
    team_frac: Fraction = 1.0
    """Weight of the neighbourhood's mean; the host's own part has the rest."""
    left_frac: Fraction = 0.0
    """Part of a flow's weight that falls with its undelivered bytes. At 0 a flow counts 1 until it is complete, as
    in the mean FCT; but then a period's rate changes nothing for a long flow within the horizon. At 1 a flow counts the
    fraction that is left, which pays for every byte at once by 1/size (fractional flow time in scheduling theory)."""
    weigh_bytes: NonNegative = 0.0
    """Bytes that are divided by a flow's size to give its weight: slowdowns count, not FCTs. 0: weights are 1."""

    def check(self) -> None:
        if self.weigh_bytes and self.left_frac:
            raise ConfigError(
                f"Backlog.weigh_bytes and left_frac must not both be above 0, got {self.weigh_bytes} and "
                f"{self.left_frac}: one counts flows by 1/size, the other by what is left of them; set one to 0"
            )


AnyReward = Utility | ProfitPenalty | Backlog


class Reward:
    """Reward function that a spec describes."""

    def __init__(self, spec: AnyReward) -> None:
        self.spec = spec

    def reset(self, scenario: Scenario) -> None:
        """Prepare for the hosts of a scenario."""
        scales = scales_of(scenario)
        hosts = {
            "size": scales.neighbours.shape[1] + 1,
            "link_bps": scales.link_rate_bps,
            "base_s": scales.base_rtt_s,
            "uplink_bps": scales.uplink_capacity_bps[scales.area],
        }
        self._settings = self.spec.to_dict() | hosts
        self.__dict__.pop("_rewards", None)

    @cached_property
    def _rewards(self) -> Any:
        """Rewards in C++, made when they are first needed: until then this object can be pickled."""
        return extension().Rewards(self._settings)

    def reward(self, m: Measured) -> RewardArray:
        """Return the rewards [n_agents] of a period, or [n_racks, n_agents] of several racks."""
        columns = m.__dict__
        rewards: RewardArray = np.empty(m.goodput_bps.shape, np.float32)
        self._rewards.pay([columns[name] for name in SIGNALS], rewards)
        return rewards
