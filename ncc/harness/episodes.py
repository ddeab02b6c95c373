# SPDX-License-Identifier: BSD-3-Clause
"""Recorded episodes on disk: the observations, actions and rewards of a run as an agent would have seen them.

A file holds one run, in one row group: a row per period and host, period by period (columns: `DESCRIPTIONS`), and a
description as JSON in the schema's metadata (`EpisodeInfo`). Environments write such files and agents learn from them;
neither imports the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import IntArray
from ncc.core.value import Count, Natural, Value, from_json
from ncc.harness.atomic import replacing
from ncc.harness.batch import ActionArray, ObsArray

FORMAT = 1
"""Version of the format, raised whenever older readers would misread a newer file."""
FILE = "episode.parquet"
"""File name beside the tables of a run."""
KEY = b"ncc.episode"
"""Key of the description in the schema's metadata."""

DESCRIPTIONS = {
    "controller": "controller that acted; with the seed it identifies the episode",
    "seed": "seed of the run",
    "host": "name of the host",
    "epoch": "number of the epoch that ended with the observation",
    "time_s": "end of that epoch, simulated time",
    "obs": "observation of the host at that time",
    "action": "index of the action in the next epoch; null in the last rows",
    "reward": "reward of the host for the next epoch; null in the last rows",
    "terminated": "true if every flow was delivered at the end of the next epoch; null in the last rows",
    "truncated": "true if time was up at the end of the next epoch, with flows left; null in the last rows",
}


class EpisodeInfo(Value, frozen=True):
    """Description of a recording: the run, and the environment that observed it."""

    observation: dict[str, Any]
    """Spec of the environment's observation, as plain data that agents can read without importing environments."""
    action: dict[str, Any]
    """Spec of its actions."""
    reward: dict[str, Any]
    """Spec of its reward."""
    scenario: str
    scenario_digest: str
    datapath: str
    controller: str
    seed: Natural
    flow_seed: str
    """Seed of the flows, in decimal, because JSON has no integers of that size."""
    obs_dim: Count
    n_actions: Count
    hosts: tuple[str, ...]
    problems: tuple[str, ...] = ()
    """Reasons why the run must not be used."""
    format: int = FORMAT


@dataclass(frozen=True)
class Episode:
    """One recorded run of T periods with n hosts."""

    info: EpisodeInfo
    epoch: IntArray
    """[T + 1] number of the period that ended with each observation."""
    time_s: Any
    """[T + 1] float64: time of each observation, in seconds of simulated time."""
    obs: ObsArray
    """[T + 1, n, obs_dim]; the last observation follows the last action."""
    actions: ActionArray
    """[T, n] index of the action after each observation except the last."""
    reward: Any
    """[T, n] float32: reward for the period after the action."""
    terminated: bool
    """True if every flow had been delivered after the last period."""

    @property
    def truncated(self) -> bool:
        """True if time was up after the last period."""
        return not self.terminated

    @property
    def label(self) -> str:
        """Description of the run for messages."""
        return f"controller {self.info.controller!r}, seed {self.info.seed}, on {self.info.datapath}"


def write_episode(path: Path, episode: Episode) -> None:
    """Write an episode to a Parquet file, atomically.

    Raises:
        ResultError: the file cannot be written.
    """
    table = _table(episode)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=max(len(table), 1))


def read_episodes(where: str | Path | Sequence[str | Path]) -> tuple[Episode, ...]:
    """Read all episodes of the named files, folders (any `FILE` below them) or patterns (`runs/*/ncc`), by path.

    Raises:
        ResultError: a file is not a recording, is damaged, has another format or is of a run that must not be used.
        ConfigError: no episode is named, or the episodes differ in the kind of observation, action or reward.
    """
    named = [where] if isinstance(where, str | Path) else list(where)
    paths = sorted({path for name in named for path in _paths(str(name))})
    if not paths:
        raise ConfigError("no recorded episodes are named; record some with: ncc evaluate record=true controller=[...]")
    episodes = tuple(read_episode(path) for path in paths)
    first = episodes[0]
    for path, episode in zip(paths, episodes, strict=True):
        for part in ("observation", "action", "reward"):
            if getattr(episode.info, part) != getattr(first.info, part):
                raise ConfigError(
                    f"{path} was recorded with another {part} than {paths[0]}; name recordings of one env= only"
                )
        if episode.info.obs_dim != first.info.obs_dim:
            raise ConfigError(
                f"{path} has {episode.info.obs_dim} numbers per observation and {paths[0]} has {first.info.obs_dim}; "
                "name recordings of scenarios with equally large neighbourhoods"
            )
    return episodes


def read_episode(path: Path) -> Episode:
    """Read the episode of one file; errors as in `read_episodes`."""
    try:
        with pq.ParquetFile(path) as file:
            meta = (file.schema_arrow.metadata or {}).get(KEY)
            if meta is None:
                raise ResultError(f"{path} is no recording of ncc; name what ncc evaluate record=true wrote")
            info = _info(path, meta)
            table = file.read(["epoch", "time_s", "obs", "action", "reward", "terminated", "truncated"])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise ResultError(f"{path} cannot be read as a recording ({error}); record it again") from None
    if info.problems:
        raise ResultError(f"{path} is of a run that must not be used ({info.problems[0]}); leave it out")
    return _episode(path, info, table)


def _info(path: Path, meta: bytes) -> EpisodeInfo:
    try:
        plain = msgspec.json.decode(meta)
        version = plain.get("format") if isinstance(plain, dict) else None
        if version != FORMAT:
            raise ResultError(
                f"{path} is a recording of format {version!r} and this ncc reads format {FORMAT}: record it again, or "
                "use the ncc that wrote it"
            )
        return from_json(EpisodeInfo, meta, "metadata")
    except (msgspec.DecodeError, ConfigError) as error:
        raise ResultError(f"{path} does not say how it was recorded ({error}); record it again") from None


def _episode(path: Path, info: EpisodeInfo, table: pa.Table) -> Episode:
    """Convert columns to arrays over periods and hosts."""
    n = len(info.hosts)
    rows = len(table) - n  # after the last epoch there is only an observation
    obs = table.column("obs").combine_chunks()
    columns = {name: table.column(name).slice(0, rows) for name in ("action", "reward", "terminated", "truncated")}
    lacks = any(column.null_count for column in columns.values()) or obs.null_count
    if rows < n or len(table) % n or lacks or obs.type.list_size != info.obs_dim:
        raise ResultError(f"{path} does not hold the episode that its metadata promise; record it again")
    flat = obs.flatten().to_numpy()
    actions = columns["action"].to_numpy().astype(np.int64).reshape(-1, n)
    reward = columns["reward"].to_numpy().astype(np.float32).reshape(-1, n)
    ends = {name: columns[name].to_numpy().reshape(-1, n) for name in ("terminated", "truncated")}
    over = ends["terminated"] | ends["truncated"]
    if over[:-1].any() or not (over[-1].all() and np.isfinite(flat).all() and np.isfinite(reward).all()):
        raise ResultError(f"{path} does not hold one episode of finite numbers with one end; record it again")
    return Episode(
        info=info,
        epoch=table.column("epoch").to_numpy()[::n].copy(),
        time_s=table.column("time_s").to_numpy()[::n].copy(),
        obs=np.array(flat, dtype=np.float32).reshape(-1, n, info.obs_dim),
        actions=actions,
        reward=reward,
        terminated=bool(ends["terminated"][-1].all()),
    )


def _table(episode: Episode) -> pa.Table:
    info, n, epochs = episode.info, len(episode.info.hosts), len(episode.actions)
    rows, last = (epochs + 1) * n, np.arange((epochs + 1) * n) >= epochs * n
    end = np.arange(rows) // n == epochs - 1

    def acted(values: Any, kind: pa.DataType) -> pa.Array:
        """Make a column that is null in the last rows, which have an observation and no action."""
        return pa.array(np.concatenate([values.ravel(), np.zeros(n, dtype=values.dtype)]), kind, mask=last)

    flags = {"terminated": end & episode.terminated, "truncated": end & episode.truncated}
    flat = pa.array(np.ascontiguousarray(episode.obs, dtype=np.float32).ravel())
    columns = {
        "controller": _repeated(np.zeros(rows, dtype=np.int32), [info.controller]),
        "seed": pa.array(np.full(rows, info.seed, dtype=np.int64)),
        "host": _repeated(np.tile(np.arange(n, dtype=np.int32), epochs + 1), list(info.hosts)),
        "epoch": pa.array(np.repeat(episode.epoch.astype(np.int64), n)),
        "time_s": pa.array(np.repeat(np.asarray(episode.time_s, dtype=np.float64), n)),
        "obs": pa.FixedSizeListArray.from_arrays(flat, info.obs_dim),
        "action": acted(episode.actions, pa.int32()),
        "reward": acted(np.asarray(episode.reward, dtype=np.float32), pa.float32()),
        **{name: pa.array(values, pa.bool_(), mask=last) for name, values in flags.items()},
    }
    fields = [
        pa.field(name, column.type, metadata={"description": DESCRIPTIONS[name]}) for name, column in columns.items()
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields, metadata={KEY: info.to_json()}))


def _repeated(index: Any, names: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index), pa.array(names, pa.string()))


def _paths(name: str) -> list[Path]:
    """Return the recordings that the name of a file, a folder or a pattern stands for."""
    files: list[Path] = []
    named = Path(name)
    matching = [named] if named.exists() else sorted(Path(named.anchor).glob(str(named.relative_to(named.anchor))))
    for path in matching:
        files += sorted(path.rglob(FILE)) if path.is_dir() else [path]
    if not files:
        raise ConfigError(
            f"{name} names no recorded episode (a file, a folder with {FILE} in it, or a pattern); record some with: "
            "ncc evaluate record=true controller=[...]"
        )
    return files
