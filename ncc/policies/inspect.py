# SPDX-License-Identifier: BSD-3-Clause
"""A description of a policy file, as YAML for the terminal."""

from typing import Any

import yaml

from ncc.envs.observation import entry_names
from ncc.policies.file import PolicyFile

LEFT_OUT = ("recipe", "facts", "provenance")
"""Parts of a policy's origin that are not shown, because they are longer than all the rest."""


def lines(file: PolicyFile, where: str) -> list[str]:
    """Lines that describe a policy file, named `where`, in YAML, which escapes control characters of terminals."""
    header = file.header.to_dict()
    origin = header["origin"]["provenance"]
    header["origin"] = {name: value for name, value in header["origin"].items() if name not in LEFT_OUT}
    header["origin"] |= {"commit": origin.get("git"), "written_at": origin.get("written_at"), "ncc": origin.get("ncc")}
    header["entries"] = entry_names(file.header.observation, file.header.obs_dim)
    header |= {name: _names(header[name]) for name in ("scenario", "families")}
    facts = {"size_bytes": file.size_bytes, "sha256": file.sha256, "weights": file.header.n_weights}
    text = yaml.safe_dump({**facts, **header}, sort_keys=False, default_flow_style=None, width=120)
    return [f"{where}: checked in full", *text.splitlines()]


def _names(part: Any) -> object:
    """Return the name of a scenario or the names of families; anything else stays as it is."""
    part = part.get("of", part) if isinstance(part, dict) else part
    return part.get("name", list(part)) if isinstance(part, dict) else part
