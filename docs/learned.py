# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of ncc/learning.md, from runs of the packaged policy: `python -m docs.learned` writes them anew."""

from pathlib import Path

from docs.pictures import licensed
from ncc.agents.policy import packaged_policy
from ncc.harness.atomic import file_digest
from studies.learned import importance, importance_bars
from studies.random_networks import drawn, load_families
from studies.waiting import waiting, waiting_limits

POLICY = "ncc"
FORMULAS = ("local_hold", "local_tuned")
LIMITS = Path(__file__).parent / "assets/learned_limits.svg"
FEATURES = LIMITS.with_name("learned_features.svg")
SEED, NETWORKS = 9, 48
"""Networks of the pictures: those of `python -m studies.learned ncc --networks 48 --seed 9`."""


def drawn_from() -> str:
    """The policy that a picture is of, by the digest of its file."""
    return f"{POLICY}.ncc, SHA-256 {file_digest(packaged_policy(POLICY))}"


def main() -> None:
    """Draw both."""
    networks = drawn(load_families("mixture", ["incast"]), SEED, NETWORKS)
    waiting_limits(waiting([POLICY, *FORMULAS], networks), LIMITS)
    importance_bars(importance(POLICY, networks, seed=SEED), FEATURES)
    for path in (LIMITS, FEATURES):
        licensed(path, drawn_from())


if __name__ == "__main__":
    main()
