# SPDX-License-Identifier: BSD-3-Clause
"""On what a run has recorded, an agent decides as the policy did in that run; bad recordings are refused."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell
from ncc.core.workload import Poisson
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.columns import tables
from ncc.harness.run import run_once
from ncc.host.__main__ import main
from ncc.host.neighbourhood import limiter_of
from ncc.policies.file import PolicyFile
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory

SCENARIO = Scenario(
    name="senders",
    topology=Dumbbell(pairs=4, host_rate_bps=1e9, bottleneck_rate_bps=1e9, delay_s=1e-5),
    workload=(
        ("web", Poisson(distribution="cachefollower", load_frac=0.9, sources="senders", destinations="receivers")),
    ),
    duration_s=0.2,
    drain_s=1.0,
)
NETWORK = ["--link-rate", "1e9", "--uplink-rate", "1e9"]


@pytest.fixture(scope="module")
def recorded(policy_file: PolicyFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    controller = LimiterFactory(None).resolved(load_controller("ncc"))
    run = run_once(PacketsimDatapath(), SCENARIO, controller, limiter_of(policy_file), 1, flow_seed=3)
    path = tmp_path_factory.mktemp("run") / "epochs.parquet"
    pq.write_table(tables(run)["epochs"], path)
    return path


def test_what_was_decided_in_a_run_is_decided_again(
    recorded: Path, policy_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "decided.parquet"
    assert main(["replay", str(policy_path), str(recorded), *NETWORK, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "4 hosts" in said
    assert "as recorded in the next epoch: 100.00% of" in said
    table, epochs = pq.read_table(out), pq.read_table(recorded)
    decided, held = table["decided_bps"].to_numpy(), epochs["rate_limit_bps"].to_numpy()
    assert np.isfinite(held).any()
    np.testing.assert_allclose(decided[:-4], held[4:], rtol=1e-6)
    np.testing.assert_array_equal(table["in_force_bps"].to_numpy(), held)


def test_bounds_are_narrowed_and_never_widened(
    recorded: Path, policy_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "decided.parquet"
    asked = ["replay", str(policy_path), str(recorded), *NETWORK]
    assert main([*asked, "--max-rate-frac", "0.4", "--out", str(out)]) == 0
    assert pq.read_table(out)["decided_bps"].to_numpy().max() == 4e8
    capsys.readouterr()
    for option, value in (("--max-rate-frac", "7"), ("--min-rate-frac", "0.001")):
        assert main([*asked, option, value]) == 2
        assert f"{option} {value} is wider than the policy file's" in capsys.readouterr().err


def replaced(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def spoilt(table: pa.Table, name: str, value: float) -> pa.Table:
    values = table[name].to_numpy().astype(np.float64)
    values[5] = value
    return replaced(table, name, values)


SPOILT: dict[str, Callable[[pa.Table], pa.Table]] = {
    "has no column 'wait_s'": lambda table: table.drop_columns(["wait_s"]),
    "has no numbers in 'queued_bytes', but string": lambda table: replaced(table, "queued_bytes", ["1"] * len(table)),
    "has -1 in 'queued_bytes'": lambda table: spoilt(table, "queued_bytes", -1.0),
    "has 1e+30 in 'rtt_s'": lambda table: spoilt(table, "rtt_s", 1e30),
    "has nan in 'wait_s'": lambda table: spoilt(table, "wait_s", math.nan),
    "has 0 in 'rate_limit_bps'": lambda table: spoilt(table, "rate_limit_bps", 0.0),
    "has no neighbourhood 0; it has no epochs at all": lambda table: table.slice(0, 0),
    "does not have a row for each epoch and host in turn": lambda table: table.slice(0, 7),
    "has no neighbourhood 0; it has 1": lambda table: replaced(table, "area", [1] * len(table)),
}


@pytest.mark.parametrize("says", SPOILT)
def test_recordings_that_are_none_are_refused(
    says: str, recorded: Path, policy_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded.with_name("spoiled.parquet")
    pq.write_table(SPOILT[says](pq.read_table(recorded)), path)
    assert main(["replay", str(policy_path), str(path), *NETWORK]) == 1
    assert says in capsys.readouterr().err


def test_what_does_not_fit_is_said_in_a_sentence(
    recorded: Path, policy_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = tmp_path / "nothing.parquet"
    nothing.write_text("no table")
    for arguments, status, says in (
        ([str(policy_path), str(recorded), "--uplink-rate", "1e9"], 2, "say --link-rate"),
        ([str(policy_path), str(recorded), *NETWORK, "--period", "0.5"], 2, "was trained to decide every"),
        ([str(policy_path), str(nothing), *NETWORK], 1, "cannot read"),
        ([str(nothing), str(recorded), *NETWORK], 1, "nothing.parquet"),
        ([str(policy_path), str(recorded), *NETWORK, "--out", str(tmp_path / "none/x")], 2, "none is no folder"),
        ([str(policy_path), str(recorded), *NETWORK, "--out", str(tmp_path)], 1, "is no regular file"),
    ):
        assert main(["replay", *arguments]) == status
        said = capsys.readouterr()
        assert says in said.err
        assert said.out == ""
    assert list(tmp_path.iterdir()) == [nothing]
