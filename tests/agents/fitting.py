# SPDX-License-Identifier: BSD-3-Clause
"""One line to train."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import RllibConfig
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Progress


def fit(
    config: A3cConfig | RllibConfig,
    make_env: EnvFactory,
    folder: Path,
    *,
    seed: int = 1,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> list[Progress]:
    """Train, check what every training leaves behind, and return its reports; `on_progress` gets each as it comes."""
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if on_progress is not None:
            on_progress(progress)

    learner = config.build()
    path = learner.train(make_env, folder, seed, resume=resume, report=report, meta=meta or {})
    assert path == folder / "policy.ncc"
    assert path.is_file()
    assert (folder / "policy_untrained.ncc").is_file()
    return reports
