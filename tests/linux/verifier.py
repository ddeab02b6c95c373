# SPDX-License-Identifier: BSD-3-Clause
"""``python -m tests.linux.verifier`` rewrites verifier.json: instructions that the kernel's verifier went through.

It gives up at a million; a change that multiplies a number should be seen before it is there. Numbers differ by kernel
and by compiler, of which the file says which they were.
"""

import json
import platform
import re
from pathlib import Path

from ncc.baselines.registry import check_params
from ncc.envs.linux import objects
from ncc.envs.linux.libbpf import Object

CLANG = re.compile(rb"clang version [ -~]+")
COUNTS = Path(__file__).parent / "verifier.json"


def counts(name: str) -> dict[str, int]:
    """Of each program of a BPF object, loaded with default parameters."""
    with Object(objects.bpf_object(name)) as loaded:
        if name.startswith("shim_"):
            values = list(check_params(name.removeprefix("shim_"), {}).values())
            loaded.map(".rodata.params").initial().view("<u8")[: len(values)] = values  # they come first
        loaded.load()
        return {program.name: program.facts()["verified_insns"] for program in loaded.programs()}


def made_by() -> dict[str, str]:
    """Whose numbers these would be: the kernel, and the compiler of the objects as they say themselves."""
    made = {version for path in objects.bpf_objects().values() for version in CLANG.findall(path.read_bytes())}
    return {"kernel": platform.release(), "clang": b", ".join(sorted(made)).decode()}


if __name__ == "__main__":
    found = {name: counts(name) for name in objects.bpf_objects()}
    COUNTS.write_text(json.dumps({"made_by": made_by(), "objects": found}, indent=2, sort_keys=True) + "\n")
    print(f"{COUNTS}: {sum(map(len, found.values()))} programs")  # noqa: T201
