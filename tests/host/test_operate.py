# SPDX-License-Identifier: BSD-3-Clause
"""The alert rules of docs/host/operate.md: they name metrics that an agent has."""

import re
from pathlib import Path

import yaml

from ncc.envs.linux.layout import COUNTERS
from ncc.envs.linux.queue import GROWING
from ncc.host.listener import DROPPED
from ncc.host.metrics import Durations
from tests.host.test_metrics import collector

PAGE = Path(__file__).parents[2] / "docs/host/operate.md"
LABELS = {"stale_peers", "stale_uplink", "refused", *DROPPED, *COUNTERS, *GROWING}
"""Values of labels that the rules may name."""


def test_alerts_are_about_metrics_that_are_there() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (group,) = yaml.safe_load(block)["groups"]
    text = " ".join(rule["expr"] for rule in group["rules"])
    families = list(collector(Durations()).collect())
    known = {family.name + "_total" * (family.type == "counter") for family in families}
    assert set(re.findall(r"\bncc_\w+", text)) <= known
    labels = re.findall(r'(whose|result|what)=~?"([^"]+)"', text)
    assert len(labels) == 6
    assert {value for _, values in labels for value in values.split("|")} <= LABELS
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])


def test_both_sides_of_a_quotient_have_the_same_labels() -> None:
    """Prometheus pairs only those, and finds nothing otherwise: such an alert would never come."""
    labels = {
        family.name + "_total": {name for sample in family.samples for name in sample.labels}
        for family in collector(Durations()).collect()
    }
    quotients = re.findall(r"rate\((\w+)[^)]*\) /( ignoring \((\w+)\))? rate\((\w+)", PAGE.read_text())
    assert len(quotients) == 3
    for above, _, ignored, below in quotients:
        assert labels[above] - {ignored} == labels[below], above
