# SPDX-License-Identifier: BSD-3-Clause
"""Policies that come with the package: `agents/pretrained/<name>.npz`, and what vouches for it, `<name>.json`."""

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


class PolicyManifest(Value, frozen=True):
    """What a packaged policy is."""

    name: Name
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """Of the `.npz`."""
    size_bytes: Count
    seed: Natural
    """Of its training."""
    recipe: dict[str, Any]
    """The training's whole configuration, as in its run folder."""
    facts: dict[str, Any]
    """What the run's manifest says of the training."""
    trained: dict[str, Any]
    """The ranges of the networks that training met, as the policy file states them (`ncc.envs.trained`)."""
    provenance: dict[str, Any]
    """Commit, versions and machine of the training (`ncc.harness.manifest.provenance`)."""
    format: Natural = FORMAT


def packaged_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Policies that `folder` holds."""
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}")))


def packaged_policy(name: str, folder: Path = FOLDER) -> Path:
    """The policy file of that name, after comparing it with its manifest.

    Raises:
        UnknownNameError: there is none; the message lists what exists.
        ResultError: its manifest is missing or damaged, or speaks of another file.
    """
    path = folder / f"{name}{SUFFIX}"
    if not path.is_file():
        raise UnknownNameError("packaged policy", name, packaged_names(folder))
    vouched = read_policy_manifest(name, folder)
    size_bytes = path.stat().st_size
    if (size_bytes, file_digest(path)) != (vouched.size_bytes, vouched.sha256):
        raise ResultError(
            f"{path} is not the file that {name}.json beside it vouches for (SHA-256 or size differ): damaged or "
            "changed; install ncc again, or pack the policy again with ncc pack"
        )
    return path


def read_policy_manifest(name: str, folder: Path = FOLDER) -> PolicyManifest:
    """What vouches for a packaged policy; `ResultError` if it is missing or damaged."""
    path = folder / f"{name}.json"
    remedy = "install ncc again, or pack the policy again with ncc pack"
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ConfigError(f"it is not of format {FORMAT}")
        found = from_dict(PolicyManifest, data, path.name)
    except FileNotFoundError:
        raise ResultError(f"nothing vouches for the policy {name!r}: {path} is missing; {remedy}") from None
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ResultError(f"{path} is no manifest of a policy ({error}); {remedy}") from None
    if found.name != name:
        raise ResultError(f"{path} vouches for a policy called {found.name!r}, not {name!r}; {remedy}")
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
    """Copy a policy file to `folder/<name>.npz` and write its manifest; one that is there is replaced.

    Each file is whole or not there, and the manifest comes last: whoever reads in between is refused.

    Raises:
        ConfigError: a name that cannot be a file's.
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
