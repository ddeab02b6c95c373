# SPDX-License-Identifier: BSD-3-Clause
"""Policies that come with the package: `agents/pretrained/<name>.npz`, and the manifest `<name>.json` of each."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ncc.agents.policy import load_policy
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.value import Count, Name, Natural, Value, from_dict
from ncc.harness.atomic import file_digest, replacing, write_text

FOLDER = Path(__file__).resolve().parent / "pretrained"
FORMAT = 1
SUFFIX = ".npz"
REMEDY = "install ncc again, or pack the policy again with ncc pack"


class PolicyManifest(Value, frozen=True):
    """Manifest of a packaged policy."""

    name: Name
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the `.npz`, in hexadecimal."""
    size_bytes: Count
    seed: Natural
    """Seed of its training."""
    recipe: dict[str, Any]
    """The whole configuration of its training, as in the run folder."""
    facts: dict[str, Any]
    """Facts about the training from the run's manifest."""
    trained: dict[str, Any]
    """The ranges of the networks that training met, as the policy file states them (`ncc.envs.ranges`)."""
    provenance: dict[str, Any]
    """Commit, versions and machine of the training (`ncc.harness.manifest.provenance`)."""
    format: Natural = FORMAT


def packaged_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of the policies in `folder`."""
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}")))


def packaged_policy(name: str, folder: Path = FOLDER) -> Path:
    """Path of the policy file of that name, after checking it against its manifest.

    Raises:
        UnknownNameError: no such policy; the message lists those that exist.
        ResultError: its manifest is missing, damaged or of another file.
    """
    path = folder / f"{name}{SUFFIX}"
    if not path.is_file():
        raise UnknownNameError("packaged policy", name, packaged_names(folder))
    manifest = read_policy_manifest(name, folder)
    if (path.stat().st_size, file_digest(path)) != (manifest.size_bytes, manifest.sha256):
        raise ResultError(f"{path} does not match {name}.json beside it (SHA-256 or size differ); {REMEDY}")
    return path


def read_policy_manifest(name: str, folder: Path = FOLDER) -> PolicyManifest:
    """Read the manifest of a packaged policy; `ResultError` if it is missing or damaged."""
    path = folder / f"{name}.json"
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ConfigError(f"it is not of format {FORMAT}")
        found = from_dict(PolicyManifest, data, path.name)
    except FileNotFoundError:
        raise ResultError(f"the manifest {path} of the policy {name!r} is missing; {REMEDY}") from None
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ResultError(f"{path} is not the manifest of a policy ({error}); {REMEDY}") from None
    if found.name != name:
        raise ResultError(f"{path} is the manifest of a policy called {found.name!r}, not {name!r}; {REMEDY}")
    return found


def package_policy(
    source: Path,
    name: str,
    *,
    seed: int,
    recipe: Mapping[str, Any],
    facts: Mapping[str, Any],
    provenance: Mapping[str, Any],
    folder: Path = FOLDER,
) -> Path:
    """Copy a policy file to `folder/<name>.npz` and write its manifest, replacing an existing one.

    Each file is written whole or not at all, the manifest last, so a reader in between gets an error.

    Raises:
        ConfigError: `name` cannot be a file name.
        ResultError: `source` is no policy, or the file system refused.
    """
    _, meta = load_policy(source)
    manifest = PolicyManifest(
        name=name,
        sha256=file_digest(source),
        size_bytes=source.stat().st_size,
        seed=seed,
        recipe=dict(recipe),
        facts=dict(facts),
        trained=meta.get("trained", {}),
        provenance=dict(provenance),
    )
    path = folder / f"{name}{SUFFIX}"
    with replacing(path) as temporary:
        shutil.copyfile(source, temporary)
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in manifest.to_dict().items()]
    write_text(folder / f"{name}.json", "{\n" + ",\n".join(lines) + "\n}\n")
    return path
