# SPDX-License-Identifier: BSD-3-Clause
"""What a trained policy does with what it observes: rates swept along one observed number, and what matters to it.

Everything is read off the policy at observations that hosts really made in a run. It speaks of the rate that the
policy leans to: the geometric mean of its rates by its own probabilities, of which hosts take the likeliest. No limit
counts as the host's link rate.
"""

from ncc.insight.answers import Response, Saliency, response, saliency
from ncc.insight.learned import Learned, load_learned, observed
from ncc.insight.words import whose

__all__ = ["Learned", "Response", "Saliency", "load_learned", "observed", "response", "saliency", "whose"]
