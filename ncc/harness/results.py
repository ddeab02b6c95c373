# SPDX-License-Identifier: BSD-3-Clause
"""Results on disk.

A run is a folder with `flows.parquet`, `epochs.parquet`, `ports.parquet` (columns: `ncc.harness.columns`) and
`manifest.json`. A recorded run also has `episode.parquet` (`ncc.harness.episodes`). An evaluation is a folder of runs,
`<controller>/<seed>/`. Its own manifest lists the manifests of the runs. A folder becomes a result when its manifest is
written, which happens last; see `ncc.harness.manifest`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.atomic import replacing
from ncc.harness.columns import epochs_from, flows_from, numpy_column, ports_from, tables
from ncc.harness.controller import Controller
from ncc.harness.datapath import Records
from ncc.harness.episodes import FILE as EPISODE
from ncc.harness.episodes import Episode, write_episode
from ncc.harness.manifest import MANIFEST, Manifest, provenance, read_manifest, seal, unseal
from ncc.harness.run import Run
from ncc.metrics.summary import summarise

TABLES = ("flows", "epochs", "ports")
TIMES = ("started_at", "finished_at", "wall_s", "cpu_s")
RUN, EVALUATION = "run", "evaluation"


@dataclass(frozen=True)
class StoredRun:
    """A run on disk whose manifest was read and checked."""

    folder: Path
    manifest: Manifest

    @property
    def controller(self) -> str:
        """The controller's name."""
        return str(self.manifest.facts["controller"]["name"])

    @property
    def seed(self) -> int:
        """The evaluation seed."""
        return int(self.manifest.facts["seed"])

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons why the run must not be used; empty if it may be."""
        return tuple(self.manifest.facts["problems"])

    @property
    def label(self) -> str:
        """Description of the run for messages."""
        return f"controller {self.controller!r}, seed {self.seed}"

    def table(self, name: str) -> pa.Table:
        """Read the table `flows`, `epochs` or `ports` as it is on disk."""
        return read_table(self.folder / f"{name}.parquet")

    def load(self) -> Run:
        """Load the run as it was in memory.

        Raises:
            ResultError: a table or the manifest cannot be used.
        """
        facts = self.manifest.facts
        try:
            scenario = from_dict(Scenario, facts["scenario"], "manifest.scenario")
            controller = from_dict(Controller, facts["controller"], "manifest.controller")
            flows, records = flows_from(read_table(self.folder / "flows.parquet"))
            ports = ports_from(read_table(self.folder / "ports.parquet"))
            epochs = epochs_from(read_table(self.folder / "epochs.parquet"), scenario)
            return Run(
                scenario=scenario,
                controller=controller,
                flows=flows,
                records=Records(flows=records, ports=ports),
                epochs=epochs,
                fallbacks=tuple(facts["fallbacks"]),
                problems=tuple(facts["problems"]),
                datapath_facts=facts["datapath_facts"],
                **{name: facts[name] for name in ("datapath", "seed", "flow_seed", *TIMES)},
            )
        except (KeyError, TypeError, ConfigError) as error:
            raise ResultError(
                f"{self.folder / MANIFEST} lacks or contradicts what a run needs ({error}); run it again"
            ) from None


@dataclass(frozen=True)
class Evaluation:
    """Runs of several controllers over the same seeds."""

    folder: Path
    manifest: Manifest
    runs: tuple[StoredRun, ...]
    """Runs in the order of the jobs (`ncc.harness.pool.evaluate`)."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the evaluation: those of `ncc evaluate`, or `evaluation` among those of `ncc train`."""
        config = self.manifest.facts["config"]
        settings: Mapping[str, Any] = config.get("evaluation", config)
        return settings

    @property
    def controllers(self) -> tuple[str, ...]:
        """Names of the controllers, in order of first appearance."""
        return tuple(dict.fromkeys(run.controller for run in self.runs))

    def of(self, controller: str) -> tuple[StoredRun, ...]:
        """Return the runs of one controller."""
        return tuple(run for run in self.runs if run.controller == controller)

    def table(self, name: str) -> pa.Table:
        """Read the tables `flows`, `epochs` or `ports` of all runs as one, with columns `controller` and `seed`."""
        return pa.concat_tables([run.table(name) for run in self.runs]).unify_dictionaries()

    def summaries(self) -> dict[str, dict[int, dict[str, float]]]:
        """Metrics (`ncc.metrics.catalogue`) of every run, by controller and seed."""
        summaries: dict[str, dict[int, dict[str, float]]] = {name: {} for name in self.controllers}
        for stored in self.runs:
            run = stored.load()
            summary = summarise(run.scenario, run.flows, run.records.flows, run.records.ports, run.epochs)
            summaries[stored.controller][stored.seed] = summary
        return summaries

    def slowdowns(self) -> dict[str, tuple[IntArray, FloatArray]]:
        """Flow sizes and slowdowns (size_bytes, fct_slowdown) by controller, over all seeds; NaN if undelivered.

        Raises:
            ResultError: this version cannot read a run's flows.
        """
        flows: dict[str, list[pa.Table]] = {name: [] for name in self.controllers}
        for run in self.runs:
            flows[run.controller].append(run.table("flows"))
        return {
            name: (
                np.concatenate([numpy_column(table, "size_bytes") for table in tables]),
                np.concatenate([numpy_column(table, "fct_slowdown") for table in tables]),
            )
            for name, tables in flows.items()
        }


def run_folder(root: Path, controller: str, seed: int) -> Path:
    """Return the folder of a run below the folder of its evaluation."""
    return root / controller / str(seed)


def save_run(
    run: Run,
    folder: Path,
    *,
    config: Mapping[str, Any],
    inputs: Mapping[str, str] | None = None,
    episode: Episode | None = None,
) -> StoredRun:
    """Write a run to a folder. The manifest is written last, and only then is the folder a result.

    Args:
        config: resolved configuration of the run, for the record.
        inputs: names and digests of other data that the run depends on (a policy file), compared when resuming.
        episode: recording of the run, if any, saved beside the tables.

    Raises:
        ResultError: the files cannot be written; an earlier result in `folder` is then lost too.
    """
    origin = provenance()
    unseal(folder)
    for name, table in tables(run).items():
        with replacing(folder / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd")
    files = [f"{name}.parquet" for name in TABLES]
    if episode is not None:
        write_episode(folder / EPISODE, episode)
        files.append(EPISODE)
    facts = {
        **run_identity(run.scenario, run.controller, run.seed, run.flow_seed, inputs or {}),
        "datapath": run.datapath,
        "datapath_facts": dict(run.datapath_facts),
        "valid": run.valid,
        "problems": list(run.problems),
        "fallbacks": list(run.fallbacks),
        "n_flows": len(run.flows),
        "n_unfinished": int(np.isnan(run.records.flows.finish_s).sum()),
        "n_epochs": len(run.epochs.time_s),
        "simulated_s": float(run.epochs.time_s[-1]),
        **{name: getattr(run, name) for name in TIMES},
        "config": dict(config),
    }
    return StoredRun(folder, seal(folder, RUN, facts, files, origin))


def run_identity(
    scenario: Scenario, controller: Controller, seed: int, flow_seed: int, inputs: Mapping[str, str]
) -> dict[str, Any]:
    """Return the facts that identify an experiment: runs with equal facts are runs of the same experiment."""
    return {
        "scenario": json.loads(scenario.to_json()),  # lists instead of tuples, as a manifest gives back
        "scenario_digest": scenario.digest(),
        "controller": json.loads(controller.to_json()),
        "controller_digest": controller.digest(),
        "seed": seed,
        "flow_seed": flow_seed,
        "inputs": dict(inputs),
    }


def open_run(folder: Path, *, verify: bool = True) -> StoredRun:
    """Read a run's manifest and check its files, but load no table; arguments and errors as in `read_manifest`."""
    return StoredRun(folder, read_manifest(folder, RUN, verify=verify))


def load_run(folder: Path) -> Run:
    """Load a run as it was in memory, bit for bit; errors as in `read_manifest`."""
    return open_run(folder).load()


def save_evaluation(folder: Path, runs: Sequence[StoredRun], *, config: Mapping[str, Any]) -> Evaluation:
    """Write the manifest that makes a folder with these runs below it an evaluation; errors as in `seal`."""
    facts = {
        "runs": [str(run.folder.relative_to(folder)) for run in runs],
        "controllers": list(dict.fromkeys(run.controller for run in runs)),
        "seeds": sorted({run.seed for run in runs}),
        "valid": not any(run.problems for run in runs),
        "invalid_runs": {run.label: list(run.problems) for run in runs if run.problems},
        "fallbacks": {run.label: f for run in runs if (f := run.manifest.facts["fallbacks"])},
        "wall_s_sum": sum(run.manifest.facts["wall_s"] for run in runs),
        "cpu_s_sum": sum(run.manifest.facts["cpu_s"] for run in runs),
        "config": dict(config),
    }
    sealed = seal(folder, EVALUATION, facts, [str(run.folder.relative_to(folder) / MANIFEST) for run in runs])
    return Evaluation(folder, sealed, tuple(runs))


def load_evaluation(folder: Path) -> Evaluation:
    """Load an evaluation and check the files of every run; errors as in `read_manifest`."""
    sealed = read_manifest(folder, EVALUATION)
    return Evaluation(folder, sealed, tuple(open_run(folder / name) for name in sealed.facts["runs"]))


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file; raise `ResultError` if it cannot be read."""
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ResultError(f"{path} cannot be read as Parquet ({reason}); run it again") from None
