# SPDX-License-Identifier: BSD-3-Clause
"""Files of recorded episodes: what goes in comes out, and what is no such file is refused in one sentence."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.episodes import (
    DESCRIPTIONS,
    FILE,
    KEY,
    Episode,
    EpisodeInfo,
    read_episodes,
    write_episode,
)

EPOCHS, HOSTS, NUMBERS = 5, 3, 4
SPECS: dict[str, Any] = {
    "observation": {"neighbours": "each"},
    "action": {"kind": "levels", "levels": 2, "shares": (0.5, 2.0)},
    "reward": {"kind": "utility"},
}


def episode(seed: int = 1, *, terminated: bool = False, **changes: Any) -> Episode:
    rng = np.random.default_rng(seed)
    info = EpisodeInfo(
        **SPECS,
        scenario="small",
        scenario_digest="0123456789abcdef",
        datapath="fluid",
        controller="good",
        seed=seed,
        flow_seed=str(2**63 - 1),
        obs_dim=NUMBERS,
        n_actions=3,
        hosts=tuple(f"h{i}" for i in range(HOSTS)),
    )
    return Episode(
        info=info.replace(**changes),
        epoch=np.arange(EPOCHS + 1),
        time_s=np.arange(EPOCHS + 1) * 1e-3,
        obs=rng.random((EPOCHS + 1, HOSTS, NUMBERS), dtype=np.float32),
        actions=rng.integers(0, 3, (EPOCHS, HOSTS)),
        reward=rng.random((EPOCHS, HOSTS), dtype=np.float32),
        terminated=terminated,
    )


@pytest.mark.parametrize("terminated", [False, True])
def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, terminated: bool) -> None:
    wrote = episode(terminated=terminated)
    write_episode(tmp_path / FILE, wrote)
    (read,) = read_episodes(tmp_path)
    assert read.info.to_json() == wrote.info.to_json()
    for name in ("epoch", "time_s", "obs", "actions", "reward"):
        assert np.array_equal(getattr(read, name), getattr(wrote, name)), name
        assert getattr(read, name).dtype == getattr(wrote, name).dtype, name
    assert (read.terminated, read.truncated) == (terminated, not terminated)
    assert not list(tmp_path.glob(".*")), "no temporary file stays"


def test_a_run_is_a_row_group_with_a_row_per_epoch_and_host(tmp_path: Path) -> None:
    wrote = episode()
    write_episode(tmp_path / FILE, wrote)
    file = pq.ParquetFile(tmp_path / FILE)
    assert file.metadata.num_row_groups == 1
    schema = file.schema_arrow
    assert {field.name: field.metadata[b"description"].decode() for field in schema} == DESCRIPTIONS
    assert str(schema.field("obs").type) in ("fixed_size_list<element: float>[4]", "fixed_size_list<item: float>[4]")
    said = json.loads(schema.metadata[KEY])
    assert said["format"] == 1
    assert {key: said[key] for key in ("obs_dim", "n_actions", "controller", "seed")} == {
        "obs_dim": 4,
        "n_actions": 3,
        "controller": "good",
        "seed": 1,
    }
    table = file.read()
    assert len(table) == (EPOCHS + 1) * HOSTS
    row = table.slice(2 * HOSTS + 1, 1).to_pylist()[0]  # the second host after two epochs
    assert (row["host"], row["epoch"], row["controller"], row["seed"]) == ("h1", 2, "good", 1)
    assert row["obs"] == wrote.obs[2, 1].tolist()
    assert (row["action"], row["reward"]) == (wrote.actions[2, 1], wrote.reward[2, 1])
    assert (row["terminated"], row["truncated"]) == (False, False)
    before_last, last = table.slice((EPOCHS - 1) * HOSTS, HOSTS), table.slice(EPOCHS * HOSTS)
    assert before_last.column("truncated").to_pylist() == [True] * HOSTS
    for name in ("action", "reward", "terminated", "truncated"):
        assert last.column(name).null_count == HOSTS, "after the last epoch there is an observation and nothing else"


def test_files_folders_and_patterns_are_read_once_each_in_order(tmp_path: Path) -> None:
    for seed in (1, 2, 10):
        write_episode(tmp_path / "good" / str(seed) / FILE, episode(seed))
    write_episode(tmp_path / "bad" / "1" / FILE, episode(7))
    seeds = [e.info.seed for e in read_episodes(tmp_path / "good")]
    assert sorted(seeds) == [1, 2, 10]
    assert seeds == [e.info.seed for e in read_episodes(str(tmp_path / "go*"))]
    assert [e.info.seed for e in read_episodes(str(tmp_path / "good" / "1*"))] == [1, 10]
    both = read_episodes([tmp_path / "good" / "2" / FILE, tmp_path / "good" / "2", tmp_path / "bad"])
    assert sorted(e.info.seed for e in both) == [2, 7]


def test_what_is_not_there_or_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere names no recorded episode.*record=true"):
        read_episodes(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="names no recorded episode"):
        read_episodes(tmp_path)  # an empty folder
    with pytest.raises(ConfigError, match="no recorded episodes are named"):
        read_episodes([])
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(ResultError, match="cannot be read as a recording"):
        read_episodes(tmp_path / "text.parquet")
    write_episode(tmp_path / FILE, episode())
    pq.write_table(pq.read_table(tmp_path / FILE).replace_schema_metadata({}), tmp_path / "bare.parquet")
    with pytest.raises(ResultError, match=r"bare.parquet is no recording of ncc"):
        read_episodes(tmp_path / "bare.parquet")


def rewritten(path: Path, **changes: Any) -> None:
    """The file with other metadata."""
    table = pq.read_table(path)
    said = json.loads(table.schema.metadata[KEY]) | changes
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(said)}), path)


def cut(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - HOSTS), path)


def not_finite(path: Path) -> None:
    broken = episode()
    broken.obs[1, 1, 1] = np.nan
    write_episode(path, broken)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (partial(rewritten, format=2, novelty=True), "format 2 and this ncc reads format 1: record it again"),
        (partial(rewritten, hosts=["h0", "h1"]), "does not hold the episode that its metadata promise"),
        (partial(rewritten, obs_dim=5), "does not hold the episode that its metadata promise"),
        (partial(rewritten, seed=-1), "does not say how it was recorded"),
        (cut, "of finite numbers with one end"),
        (not_finite, "of finite numbers with one end"),
        (lambda path: write_episode(path, episode(problems=("1 of 2 flows",))), r"must not be used \(1 of 2 flows"),
    ],
)
def test_what_is_not_a_whole_and_valid_episode_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    write_episode(tmp_path / FILE, episode())
    spoil(tmp_path / FILE)
    with pytest.raises(ResultError, match=says):
        read_episodes(tmp_path)


@pytest.mark.parametrize("part", ["observation", "action", "reward"])
def test_recordings_of_several_environments_do_not_mix(tmp_path: Path, part: str) -> None:
    write_episode(tmp_path / "a" / FILE, episode(1))
    changes: dict[str, Any] = {part: {"kind": "other"}}
    write_episode(tmp_path / "b" / FILE, episode(2, **changes))
    with pytest.raises(ConfigError, match=rf"b/{FILE} was recorded with another {part} than .*a/{FILE}"):
        read_episodes(tmp_path)
