# SPDX-License-Identifier: BSD-3-Clause
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import columns_of
from ncc.harness.atomic import replacing, write_text
from ncc.harness.columns import DESCRIPTIONS
from ncc.harness.manifest import git_state, provenance, seal
from ncc.harness.results import load_evaluation, load_run, open_run, run_folder, save_evaluation, save_run
from tests.support.experiments import controller, fluid_run


def test_a_run_comes_back_bit_for_bit(tmp_path: Path) -> None:
    run = fluid_run()
    save_run(run, tmp_path / "r", config={"a": [1, None]})
    back = load_run(tmp_path / "r")
    for table in ("flows", "records.flows", "records.ports"):
        ours: Any = run
        theirs: Any = back
        for step in table.split("."):
            ours, theirs = getattr(ours, step), getattr(theirs, step)
        assert columns_of(ours).keys() == columns_of(theirs).keys()
        for name, a in columns_of(ours).items():
            b = columns_of(theirs)[name]
            assert a.dtype == b.dtype
            assert np.array_equal(a, b, equal_nan=a.dtype == float), name
    assert np.array_equal(run.epochs.time_s, back.epochs.time_s)
    assert list(run.epochs.columns) == list(back.epochs.columns)
    for name, column in run.epochs.columns.items():
        assert column.dtype == back.epochs.columns[name].dtype, name
        assert np.array_equal(column, back.epochs.columns[name]), name
    for name in (
        "scenario",
        "controller",
        "seed",
        "flow_seed",
        "wall_s",
        "cpu_s",
        "problems",
        "datapath",
        "started_at",
    ):
        assert getattr(run, name) == getattr(back, name)


def test_an_invalid_run_says_so_on_disk_and_keeps_missing_times_null(tmp_path: Path) -> None:
    run = fluid_run(transport="sticky")
    stored = save_run(run, tmp_path, config={})
    assert stored.manifest.facts["valid"] is False
    assert stored.manifest.facts["n_unfinished"] == 1
    assert open_run(tmp_path).problems == run.problems
    assert pq.read_table(tmp_path / "flows.parquet").column("finish_s").null_count == 1
    assert np.isnan(load_run(tmp_path).records.flows.finish_s).sum() == 1


def test_every_column_has_a_description(tmp_path: Path) -> None:
    save_run(fluid_run(), tmp_path, config={})
    for name in ("flows", "epochs", "ports"):
        for field in pq.read_schema(tmp_path / f"{name}.parquet"):
            assert field.metadata[b"description"].decode() == DESCRIPTIONS[field.name]


def test_epoch_rows_are_per_host_with_their_own_uplink(tmp_path: Path) -> None:
    run = fluid_run()
    stored = save_run(run, tmp_path, config={})
    table = stored.table("epochs").to_pylist()
    assert len(table) == 4 * len(run.epochs.time_s)
    row = table[4 * 7 + 2]
    assert (row["host_name"], row["area"], row["controller"], row["seed"]) == ("h2", 0, "fluid", 1)
    assert row["goodput_bps"] == run.epochs.columns["goodput_bps"][7, 2]
    assert row["uplink_queue_bytes"] == run.epochs.columns["uplink_queue_bytes"][7, 0]


@pytest.mark.parametrize("name", ["flows.parquet", "epochs.parquet", "ports.parquet"])
def test_changed_cut_or_missing_files_are_refused(tmp_path: Path, name: str) -> None:
    save_run(fluid_run(), tmp_path, config={})
    path, whole = tmp_path / name, (tmp_path / name).read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(ResultError, match=f"{name} differs from what its manifest hashed"):
        load_run(tmp_path)
    path.write_bytes(whole[:-1])
    with pytest.raises(ResultError, match="its manifest says"):
        load_run(tmp_path)
    path.unlink()
    with pytest.raises(ResultError, match=f"{name} is missing"):
        load_run(tmp_path)
    path.write_bytes(whole)
    load_run(tmp_path)


@pytest.mark.parametrize(("name", "column"), [("flows", "start_s"), ("epochs", "rtt_s"), ("ports", "tx_pkts")])
def test_tables_of_another_version_are_refused_by_name(tmp_path: Path, name: str, column: str) -> None:
    stored = save_run(fluid_run(), tmp_path, config={})
    pq.write_table(stored.table(name).drop_columns([column]), tmp_path / f"{name}.parquet")
    seal(tmp_path, "run", stored.manifest.facts, list(stored.manifest.files))
    with pytest.raises(ResultError, match=rf"another version of ncc wrote the table, which has no column {column}:"):
        load_run(tmp_path)


def test_a_folder_without_a_good_manifest_is_no_result(tmp_path: Path) -> None:
    save_run(fluid_run(), tmp_path, config={})
    path, whole = tmp_path / "manifest.json", (tmp_path / "manifest.json").read_text()
    for text, says in (
        (whole.replace('"format": 1', '"format": 99'), "format 99; this ncc reads format 1"),
        (whole[: len(whole) // 2], "cannot be read"),
        ("[]", "format None"),
        (whole.replace('"kind": "run"', '"kind": "training"'), "kind 'training', not 'run'"),
        (whole.replace('"kind": "run"', '"kind": 3'), "damaged"),
        (whole.replace('"load_frac": 0.6', '"load_frac": -1.0'), "lacks or contradicts"),
    ):
        assert text != whole
        path.write_text(text)
        with pytest.raises(ResultError, match=says):
            load_run(tmp_path)
    path.unlink()
    with pytest.raises(ResultError, match="not a finished result"):
        load_run(tmp_path)


def test_a_full_disk_gives_one_error_and_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fluid_run()
    save_run(run, tmp_path, config={})
    calls = 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 6:  # somewhere in the middle of the files
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultError, match=r"cannot write .*parquet: No space left on device .* run the command again"):
        save_run(run, tmp_path, config={})
    with pytest.raises(ResultError, match="not a finished result"):
        load_run(tmp_path)
    assert not list(tmp_path.glob(".*")), "no temporary file stays"


KILLED_WHILE_SAVING = """
import os, pathlib, signal, sys
from tests.support.experiments import controller, fluid_run
from ncc.harness.results import save_run
folder, at = pathlib.Path(sys.argv[1]), int(sys.argv[2])
save_run(fluid_run(1), folder, config={})
flush, calls = os.fsync, 0
def counting(handle):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(handle)
os.fsync = counting
save_run(fluid_run(2), folder, config={})
"""


@pytest.mark.parametrize("at", [1, 5, 8, 9])
def test_killed_at_any_flush_nothing_half_written_reads_as_a_result(tmp_path: Path, at: int) -> None:
    """Nine flushes: the old manifest goes, three tables and a manifest come, each file and then its folder."""
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path), str(at)], check=False)
    assert done.returncode == -signal.SIGKILL
    if at < 9:
        with pytest.raises(ResultError, match="not a finished result"):
            load_run(tmp_path)
    else:  # everything is in place, only the last rename is not known to be on disk yet
        assert load_run(tmp_path).seed == 2


def test_replacing_takes_away_files_only(tmp_path: Path) -> None:
    """A device or a queue by that name stays: a rename would put a file in its place."""
    other, file, link = (tmp_path / name for name in ("other", "file", "link"))
    os.mkfifo(other)
    with pytest.raises(ResultError, match="other: what has that name is no regular file"):
        write_text(other, "new")
    assert other.is_fifo()
    write_text(file, "old")
    link.symlink_to(file)
    write_text(link, "new")
    assert (file.read_text(), link.read_text()) == ("old", "new")


def test_replacing_leaves_the_old_file_when_the_writer_fails(tmp_path: Path) -> None:
    write_text(tmp_path / "f", "old")

    def half_way() -> None:
        with replacing(tmp_path / "f") as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_way()
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_an_evaluation_needs_every_run_whole(tmp_path: Path) -> None:
    runs = []
    for seed in (1, 2):
        for share in (False, True):
            run = fluid_run(seed, share=share)
            runs.append(save_run(run, run_folder(tmp_path, run.controller.name, seed), config={}))
    with pytest.raises(ResultError, match="not a finished result"):
        load_evaluation(tmp_path)
    save_evaluation(tmp_path, runs, config={"x": 1})
    back = load_evaluation(tmp_path)
    assert back.controllers == ("fluid", "share")
    assert [run.seed for run in back.of("share")] == [1, 2]
    flows = back.table("flows")
    assert len(flows) == sum(len(run.table("flows")) for run in runs)
    assert set(flows.column("controller").to_pylist()) == {"fluid", "share"}
    (tmp_path / "share" / "2" / "flows.parquet").unlink()
    with pytest.raises(ResultError, match="is missing"):
        load_evaluation(tmp_path)


def test_controller_names_cannot_leave_the_folder() -> None:
    with pytest.raises(ConfigError, match=r"Controller.name: Expected `str` matching"):
        controller("..")


def test_provenance_never_fails_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_DIR", str(Path(__file__).parents[2] / ".git"))  # as in a hook
    assert git_state(tmp_path) == {"commit": None, "dirty": None, "note": "not a git checkout"}
    (tmp_path / ".git").mkdir()  # a broken one
    assert git_state(tmp_path)["commit"] is None
    assert "git failed" in git_state(tmp_path)["note"]
    json.dumps(provenance(), allow_nan=False)


def test_sealing_needs_the_files(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"cannot read .*a\.txt"):
        seal(tmp_path, "training", {}, ["a.txt"])
    assert not list(tmp_path.iterdir())
