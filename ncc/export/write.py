# SPDX-License-Identifier: BSD-3-Clause
"""Writing a policy file: all of it, or nothing."""

from pathlib import Path

from ncc.agents.packaged import FOLDER
from ncc.core.errors import ConfigError
from ncc.deployed.file import SUFFIX, packed
from ncc.export.source import ExportSpec, describe, find_source
from ncc.harness.atomic import replacing


def export(spec: ExportSpec, packaged: Path = FOLDER) -> Path:
    """Write the policy file that `spec` asks for; `packaged` is where packaged policies lie.

    Raises:
        ConfigError: settings that cannot be used, a file that is there already, or onnx is not installed.
        ResultError: a run that cannot be exported, or the file system refused.
    """
    out = Path(spec.out)
    if out.suffix != SUFFIX:
        raise ConfigError(f"out must end in {SUFFIX}, got {spec.out}")
    if out.is_dir():
        raise ConfigError(f"out names a folder, {out}; name a file")
    if out.exists() and not spec.overwrite:
        raise ConfigError(f"{out} is there already; choose another out, or replace it with overwrite=true")
    data = packed(*describe(spec, find_source(spec, packaged)))
    with replacing(out) as temporary:
        temporary.write_bytes(data)
    return out
