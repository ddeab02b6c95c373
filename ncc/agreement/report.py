# SPDX-License-Identifier: BSD-3-Clause
"""Everything the report says, as values: what was compared, what came of it, and where it came from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.agreement.cases import LoadCase
from ncc.agreement.compare import Figure, figures, flow_ratios, paired, pooled_fct
from ncc.agreement.runs import Runs, Side
from ncc.agreement.small import SmallRow
from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import NS_PER_S
from ncc.harness.results import StoredRun
from ncc.metrics.stats import Interval

SHARES = (0.01, 0.05, 0.10)
"""Distances from 1 within which flows' ratios are counted."""
FORMAT = 1


@dataclass(frozen=True)
class FlowByFlow:
    """Completion times of all flows of a case under one controller, and their ratios to the reference's."""

    size_bytes: IntArray
    fct_s: FloatArray
    reference_fct_s: FloatArray
    ratio: FloatArray
    noise: FloatArray
    """The reference perturbed over the reference."""

    def same(self, ratio: FloatArray) -> int:
        """Flows that took the same time to the nanosecond."""
        return int(np.sum(np.abs(ratio - 1) * self.reference_fct_s < 0.5 / NS_PER_S))

    def shares(self, ratio: FloatArray) -> list[float]:
        """Share of flows within each of `SHARES` of 1."""
        # A little slack: an exact 1.01 has no binary form.
        return [float(np.mean(np.abs(ratio - 1) <= share + 1e-12)) for share in SHARES]


@dataclass(frozen=True)
class Compared:
    """One case under one controller."""

    case: LoadCase
    controller: str
    figures: list[Figure]
    flows: FlowByFlow
    problems: tuple[str, ...]
    """Why runs of either side must not be used; empty if all may."""

    def count(self, verdict: str) -> int:
        """Figures with this verdict."""
        return sum(figure.verdict == verdict for figure in self.figures)


@dataclass(frozen=True)
class Report:
    """What is written."""

    ours: str
    reference: str
    preset: str
    controllers: tuple[str, ...]
    seeds: tuple[int, ...]
    small: tuple[SmallRow, ...]
    compared: tuple[Compared, ...]
    provenance: Mapping[str, Any]
    made_of: Mapping[str, Sequence[str]]
    """By side: commits that its runs were made at, `+` behind those with changes of their own."""
    cpu_s: Mapping[str, float]
    """By side: CPU time of its runs, whenever they were made."""
    wall_s: float
    """Of this command; runs found on disk cost it nothing."""

    @property
    def agrees(self) -> bool:
        """Whether every bound holds and every run may be used."""
        return all(row.inside for row in self.small) and not any(
            c.count("outside") or c.problems for c in self.compared
        )

    def of(self, controller: str) -> list[Compared]:
        """The loaded cases under one controller."""
        return [c for c in self.compared if c.controller == controller]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: every figure with its verdict; undefined numbers are null."""
        return {
            "format": FORMAT,
            "agrees": self.agrees,
            "ours": self.ours,
            "reference": self.reference,
            "preset": self.preset,
            "controllers": list(self.controllers),
            "seeds": list(self.seeds),
            "git": dict(self.provenance["git"]),
            "written_at": self.provenance["written_at"],
            "runs_made_at": {side: list(commits) for side, commits in self.made_of.items()},
            "wall_s": round(self.wall_s, 1),
            "cpu_s": {side: round(value, 1) for side, value in self.cpu_s.items()},
            "small": [_small(row) for row in self.small],
            "load": [_load(c) for c in self.compared],
        }


def compare_runs(
    cases: Sequence[LoadCase], controllers: Sequence[str], who: Sequence[Side], runs: Runs
) -> list[Compared]:
    """Every case under every controller; errors as in `paired`."""
    out = []
    for controller in controllers:
        for case in cases:
            ours, reference, perturbed = (runs[case.name, side.name, controller] for side in who)
            a, b = paired(ours, reference)
            c, _ = paired(perturbed, reference)
            problems = {
                f"{run.label}: {p}" for side in (ours, reference, perturbed) for run in side for p in run.problems
            }
            size_bytes, fct = pooled_fct(a)
            flows = FlowByFlow(size_bytes, fct, pooled_fct(b)[1], flow_ratios(a, b), flow_ratios(c, b))
            out.append(Compared(case, controller, figures(a, b, c), flows, tuple(sorted(problems))))
    return out


def origins(runs: Runs) -> tuple[dict[str, list[str]], dict[str, float]]:
    """By side: the commits its runs were made at, and their CPU seconds."""
    by_side: dict[str, list[StoredRun]] = {}
    for (_, side, _), stored in runs.items():
        by_side.setdefault(side, []).extend(stored)
    return (
        {side: sorted({_commit(run.manifest.provenance["git"]) for run in stored}) for side, stored in by_side.items()},
        {side: sum(float(run.manifest.facts["cpu_s"]) for run in stored) for side, stored in by_side.items()},
    )


def _commit(git: Mapping[str, Any]) -> str:
    return f"{str(git['commit'])[:10]}{'+' if git['dirty'] else ''}"


def _small(row: SmallRow) -> dict[str, Any]:
    return {
        "case": row.case,
        "controller": row.controller,
        "flow": row.flow,
        "fct_s": list(row.fct_s),
        "retransmitted_pkts": list(row.retransmitted_pkts),
        "timeouts": list(row.timeouts),
        "ce_pkts": list(row.ce_pkts),
        "inside": row.inside,
    }


def _load(compared: Compared) -> dict[str, Any]:
    flows = compared.flows
    return {
        "case": compared.case.name,
        "controller": compared.controller,
        "n_flows": len(flows.ratio),
        "flows_same": flows.same(flows.ratio),
        "flows_same_noise": flows.same(flows.noise),
        "problems": list(compared.problems),
        "flows_within": dict(zip(map(str, SHARES), flows.shares(flows.ratio), strict=True)),
        "flows_within_noise": dict(zip(map(str, SHARES), flows.shares(flows.noise), strict=True)),
        "figures": {figure.key: _figure(figure) for figure in compared.figures},
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "ours": _number(figure.ours),
        "reference": _number(figure.reference),
        "ratio": _interval(figure.ratio),
        "noise": _interval(figure.noise),
        "bound": None if figure.low is None else [round(figure.low, 4), round(figure.high or 0.0, 4)],
        "n": figure.n,
        "verdict": figure.verdict or None,
    }


def _interval(interval: Interval) -> list[float | None]:
    return [_number(value) for value in (interval.estimate, interval.low, interval.high)]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")
