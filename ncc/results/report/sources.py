# SPDX-License-Identifier: BSD-3-Clause
"""Sources of a report: finished folders that `ncc train` or `ncc evaluate` made.

No table is copied from a folder: all are computed again from the runs, whose files are checked against their manifests.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError, ResultError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.manifest import MANIFEST, Manifest, is_sealed, read_manifest
from ncc.harness.results import EVALUATION, Evaluation, load_evaluation
from ncc.harness.run import eval_flow_seed
from ncc.results.comparison import base_scenario, compare
from ncc.results.judgement import JSON, Judgement
from ncc.run.folders import read_learning
from ncc.run.plan import CONFIG

TRAINING = "training"
JUDGED = "evaluation"
"""Name of the folder, within a training, that holds its final evaluation."""


@dataclass(frozen=True)
class Training:
    """A finished training: its manifest, its configuration and its learning log."""

    manifest: Manifest
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    """Rows of the learning log."""


@dataclass(frozen=True)
class Source:
    """The contents of one folder, read and checked."""

    folder: Path
    scenario: Scenario
    evaluations: Mapping[str, Evaluation]
    """Evaluations by datapath; the last is the reference."""
    judgement: Judgement
    training: Training | None = None

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name


def read_source(folder: Path, reference: str | None = None) -> Source:
    """Read a folder, and check every file in it that the report uses.

    Args:
        reference: controller that the others are compared with; None: as in the folder's settings.

    Raises:
        ConfigError: there is no such folder, or the reference was not run.
        ResultError: it is unfinished, damaged or of another version, or holds no evaluation.
    """
    require_folder(folder)
    if is_sealed(folder):
        kind = _json(folder / MANIFEST, "run it again").get("kind")  # `read_manifest` checks it
        if kind == EVALUATION:
            return _source(folder, {"": load_evaluation(folder)}, reference)
        if kind != TRAINING:
            raise ResultError(f"{folder} is of kind {kind!r} and holds no evaluation; name the folder above it")
        manifest = read_manifest(folder, TRAINING)
        training = Training(manifest, _json(folder / CONFIG, "train again"), read_learning(folder))
        return _judged(folder, folder / JUDGED, reference, training)
    if (folder / CONFIG).is_file():
        raise ResultError(f"{folder} is a training that is not finished; continue it with: ncc train resume={folder}")
    return _judged(folder, folder, reference)


def training_of(source: Source) -> Training:
    """Return the training that a folder holds; `ResultError` if it holds none."""
    if source.training is None:
        raise ResultError(f"{source.folder} holds no training: name a folder that ncc train made")
    return source.training


def require_folder(folder: Path) -> None:
    """Raise `ConfigError` unless the folder exists."""
    if not folder.is_dir():
        raise ConfigError(f"run={folder} is no folder; name one that ncc train or ncc evaluate made")


def _judged(folder: Path, judged: Path, reference: str | None, training: Training | None = None) -> Source:
    """Read the evaluation that `ncc.results.evaluation.judge` left in `judged`."""
    if not (judged / JSON).is_file():
        raise ResultError(
            f"{folder} holds no finished evaluation; name a folder that ncc train or ncc evaluate made, or let the "
            "command that began it go on"
        )
    datapaths = _json(judged / JSON, "evaluate again").get("datapaths")
    if not isinstance(datapaths, list) or not datapaths:
        raise ResultError(f"{judged / JSON} names no datapath; evaluate again (finished runs are kept)")
    return _source(folder, {name: load_evaluation(judged / name) for name in datapaths}, reference, training)


def _source(
    folder: Path, evaluations: Mapping[str, Evaluation], reference: str | None, training: Training | None = None
) -> Source:
    scenario = from_dict(Scenario, base_scenario(next(iter(evaluations.values()))), "manifest.scenario")
    named = {name or str(run.manifest.facts["datapath"]): e for name, e in evaluations.items() for run in e.runs}
    comparisons = {name: compare(e, bounds=_bounded(e), reference=reference) for name, e in named.items()}
    try:
        judgement = Judgement(comparisons)
    except ConfigError as error:
        raise ResultError(f"{folder} cannot be compared: {error}") from None
    return Source(folder, scenario, named, judgement, training)


def _bounded(evaluation: Evaluation) -> bool:
    """True if bounds apply: all runs have the flows of an evaluation, and bounds were not switched off."""
    wanted = evaluation.settings.get("bounds", True)
    drawn = all(run.manifest.facts["flow_seed"] == eval_flow_seed(run.seed) for run in evaluation.runs)
    return bool(wanted) and drawn


def _json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); {remedy}") from None
    if not isinstance(plain, dict):
        raise ResultError(f"{path} is no mapping; {remedy}")
    return plain
