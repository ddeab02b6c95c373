# SPDX-License-Identifier: BSD-3-Clause
"""`manifest.json`, which makes a folder a result. It is written last and lists every file with its size and hash.

Readers refuse a folder that has no manifest or one of another format, or whose files differ from it. So a killed run,
or a file that was cut off or edited, is never read as a result.
"""

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import msgspec

import ncc
from ncc.core.errors import ConfigError, ResultError
from ncc.core.value import Natural, Value, from_dict
from ncc.harness.atomic import file_digest, remove, write_text

FORMAT = 1
"""Version of the format, raised whenever older readers would misread a newer folder."""

MANIFEST = "manifest.json"
_PACKAGES = ("numpy", "ns3", "pyarrow", "torch", "ray", "gymnasium", "pettingzoo")


class FileEntry(Value, frozen=True):
    """A file that belongs to the result."""

    size_bytes: Natural
    sha256: str


class Manifest(Value, frozen=True):
    """Description of a result and its origin. The keys of `facts` depend on `kind`."""

    kind: str
    """Kind of result: `run`, `evaluation`, `training`, ..."""
    facts: dict[str, Any]
    """Data that distinguishes this result from others of its kind: configuration, seeds, validity, times."""
    provenance: dict[str, Any]
    """Code and machine that made the result, as `provenance` returns them."""
    files: dict[str, FileEntry]
    """Files by path relative to the folder."""
    format: int = FORMAT


def provenance() -> dict[str, Any]:
    """Return versions, commit, machine and its current load, as plain data. This never fails and imports no package."""
    return {
        "ncc": ncc.__version__,
        "command": _command(),
        "git": git_state(Path(ncc.__file__).resolve().parent.parent),
        "python": platform.python_version(),
        "packages": {name: number for name in _PACKAGES if (number := _version(name)) is not None},
        "platform": platform.platform(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)),
        "load_average": _load(),
        "written_at": now(),
    }


def now() -> str:
    """Return the current time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def git_state(root: Path) -> dict[str, Any]:
    """Return the commit of the checkout at `root`, and a digest of the changes to tracked files.

    If there is no commit, `note` gives the reason.
    """
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None, "note": "not a git checkout"}
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "diff", "HEAD")
    except (OSError, subprocess.SubprocessError) as error:
        note = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        return {"commit": None, "dirty": None, "note": f"git failed: {note}"}
    digest = hashlib.sha256(changes.encode()).hexdigest()[:16] if changes else None
    return {"commit": commit, "dirty": bool(changes), "changes": digest, "note": ""}


def seal(
    folder: Path, kind: str, facts: Mapping[str, Any], files: Iterable[str], made: Mapping[str, Any] | None = None
) -> Manifest:
    """Hash `files` (existing paths relative to `folder`) and write the manifest that makes the folder a result.

    Args:
        made: result of `provenance` at the time when the result was made; None: take the current one.

    Raises:
        ResultError: a file is missing, or the manifest cannot be written.
    """
    entries = {}
    for name in sorted(set(files)):
        path = folder / name
        try:
            entries[name] = FileEntry(size_bytes=path.stat().st_size, sha256=file_digest(path))
        except OSError as error:
            raise ResultError(f"cannot read {path} for its manifest ({error.strerror}); run it again") from None
    sealed = Manifest(kind=kind, facts=dict(facts), provenance=dict(made or provenance()), files=entries)
    write_text(folder / MANIFEST, json.dumps(sealed.to_dict(), indent=1, allow_nan=False) + "\n")
    return sealed


def unseal(folder: Path) -> None:
    """Remove the manifest, so that the folder is no result until it is sealed again."""
    remove(folder / MANIFEST)


def is_sealed(folder: Path) -> bool:
    """True if the folder has a manifest; `read_manifest` checks it."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path, kind: str, *, verify: bool = True) -> Manifest:
    """Read the manifest of a result of that kind and check its files.

    Args:
        verify: also compare the files' SHA-256 hashes. Their sizes are always compared.

    Raises:
        ResultError: no manifest, another kind or format, or a file missing or changed since.
    """
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ResultError(f"{folder} is not a finished result: it has no {MANIFEST}; run it to the end") from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); delete the folder and run it again") from None
    version = data.get("format") if isinstance(data, dict) else None
    if version != FORMAT:
        raise ResultError(f"{path} has format {version!r}; this ncc reads format {FORMAT}: use the ncc that wrote it")
    try:
        sealed = from_dict(Manifest, data, "manifest")
    except (ConfigError, msgspec.ValidationError) as error:
        raise ResultError(f"{path} is damaged ({error}); delete the folder and run it again") from None
    if sealed.kind != kind:
        raise ResultError(f"{folder} holds a result of kind {sealed.kind!r}, not {kind!r}; name a folder of that kind")
    for name, entry in sealed.files.items():
        _check_file(folder / name, entry, verify)
    return sealed


def _check_file(path: Path, entry: FileEntry, verify: bool) -> None:
    if not path.is_file():
        raise ResultError(f"{path} is missing though the manifest lists it; run it again")
    size = path.stat().st_size
    if size != entry.size_bytes:
        raise ResultError(
            f"{path} has {size} bytes, its manifest says {entry.size_bytes}: changed or cut; run it again"
        )
    if verify and file_digest(path) != entry.sha256:
        raise ResultError(f"{path} differs from what its manifest hashed: changed since it was written; run it again")


OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Environment variables that git sets for hooks. They are removed: with them git would look at the hook's checkout."""


def _git(root: Path, *command: str) -> str:
    # Optional locks are off: a git command that is killed together with its run would leave the user's index locked.
    done = subprocess.run(
        ["git", "--no-optional-locks", "-C", str(root), *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
        env={name: value for name, value in os.environ.items() if name not in OF_HOOKS},
    )
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _command() -> str | None:
    """Return the user's command line if a module or script was run; None in a worker and for other code."""
    typed = sys.orig_argv[1:]
    if parent_process() is not None or not typed or typed[0] == "-c":
        return None
    script = Path(typed[0]).name == "ncc"  # the installed command, which Python gets as a path
    return shlex.join(["ncc", *typed[1:]] if script else ["python", *typed])


def _load() -> dict[str, float] | None:
    try:
        return dict(zip(("1_min", "5_min", "15_min"), os.getloadavg(), strict=True))
    except OSError:
        return None  # not available in some containers


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
