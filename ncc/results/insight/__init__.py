# SPDX-License-Identifier: BSD-3-Clause
"""Analysis of a trained policy: rates swept along one observed number, and the numbers that matter to it.

Everything is computed from the policy at observations that hosts made in a run. The rate is the policy's tendency: the
geometric mean of its rates, weighted with its probabilities; hosts take the most likely rate. No limit counts as the
host's link rate.
"""

from ncc.results.insight.answers import Response, Saliency, response, saliency
from ncc.results.insight.groups import GROUPS, Importance, blinded, groups_of, permuted
from ncc.results.insight.learned import Learned, load_learned, observed
from ncc.results.insight.waiting import Waiting, waiting
from ncc.results.insight.words import whose

__all__ = [
    "GROUPS",
    "Importance",
    "Learned",
    "Response",
    "Saliency",
    "Waiting",
    "blinded",
    "groups_of",
    "load_learned",
    "observed",
    "permuted",
    "response",
    "saliency",
    "waiting",
    "whose",
]
