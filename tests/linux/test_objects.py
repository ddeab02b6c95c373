# SPDX-License-Identifier: BSD-3-Clause
"""Programs for the kernel: every controller compiles to one, what was built is sound, and the verifier copes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import ncc.baselines
import ncc.envs.linux
from ncc.baselines.registry import Ecn, controller, controllers
from ncc.compose import load_datapath
from ncc.core.errors import DatapathError, UnknownNameError
from ncc.envs.linux import objects
from ncc.envs.linux.libbpf import Object
from ncc.harness.datapath import HostStack
from tests.linux import verifier
from tests.linux.elf import sections
from tests.support.linux import KERNEL, needs

FOLDER = Path(ncc.envs.linux.__file__).parent
NEEDS_ECN = 2
"""TCP_CONG_NEEDS_ECN."""
KINDS = {"struct_ops", "tc", "syscall", "fentry", "fexit"}
"""Of programs, by the beginning of their section."""
VERIFIER_TOLERANCE = 0.25
VERIFIER_SLACK = 500
"""Instructions: small programs may change by more."""


@needs("clang")
@pytest.mark.parametrize("name", sorted(controllers()))
def test_every_controller_compiles_for_the_kernel(name: str, tmp_path: Path) -> None:
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("linux: libbpf's headers are not installed (package libbpf-dev)")
    clang, made = shutil.which("clang"), tmp_path / "shim.bpf.o"
    assert clang is not None
    flags = ["-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-target", "bpf", "-mcpu=v3"]
    includes = [f"-I{Path(ncc.baselines.__file__).parent}", f"-I{FOLDER / 'bpf'}", "-D__TARGET_ARCH_x86"]
    which = [f"-DNCC_CONTROLLER={name}", f'-DNCC_CONTROLLER_HEADER="{name}.h"']
    command = [clang, *flags, *includes, *which, "-c", str(FOLDER / "bpf" / "shim.bpf.c"), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ".struct_ops" in sections(made)


@needs("objects")
def test_every_controller_was_built() -> None:
    assert objects.controllers() == tuple(sorted(controllers()))
    assert all(len(objects.congestion_name(name)) <= objects.NAME_BYTES for name in objects.controllers())


@needs("objects")
@pytest.mark.parametrize("name", sorted(objects.bpf_objects()))
def test_an_object_may_be_loaded(name: str) -> None:
    """As far as that can be told without asking the kernel."""
    found = sections(objects.bpf_object(name))
    assert found["license"] in {b"GPL\0", b"Dual BSD/GPL\0"}
    assert found[".BTF"]
    assert found[".BTF.ext"]
    with Object(objects.bpf_object(name)) as opened:
        programs = {program.name: program.section for program in opened.programs()}
        assert programs
        assert set(programs.values()) <= set(found)
        assert all(section.split("/")[0] in KINDS for section in programs.values())
        assert all(len(found[section]) % 8 == 0 and found[section] for section in programs.values())


@needs("objects")
@pytest.mark.parametrize("name", objects.controllers())
def test_a_shim_says_who_it_is(name: str) -> None:
    operations = sections(objects.controller_object(name))[".struct_ops"]
    assert objects.congestion_name(name).encode() + b"\0" in operations
    flags = int.from_bytes(operations[-4:], "little") or int.from_bytes(operations[-8:-4], "little")
    assert flags & 1  # anybody may ask for it
    assert bool(flags & NEEDS_ECN) == (controller(name).ecn is Ecn.DCTCP)


@needs(*KERNEL)
@pytest.mark.parametrize("name", sorted(objects.bpf_objects()))
def test_the_verifier_goes_through_as_much_as_before(name: str) -> None:
    """A number that has changed for a reason: python -m tests.linux.verifier."""
    kept = json.loads(verifier.COUNTS.read_text())
    if (here := verifier.made_by()) != kept["made_by"]:
        pytest.skip(f"linux: verifier.json is of {kept['made_by']}, and this is {here}")
    before, now = kept["objects"], verifier.counts(name)
    assert name in before, "a new object: python -m tests.linux.verifier"
    assert set(now) == set(before[name])
    for program, count in now.items():
        least = before[name][program]
        assert abs(count - least) <= max(VERIFIER_TOLERANCE * least, VERIFIER_SLACK), program


@needs("objects")
def test_what_was_not_built_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"controller in the kernel 'dctpc'; known: .*dctcp.*Did you mean"):
        objects.controller_object("dctpc")
    with pytest.raises(UnknownNameError, match="BPF object 'toggle'"):
        objects.bpf_object("toggle")
    with pytest.raises(DatapathError, match="helper program toggle was not built: install gcc"):
        objects.helper("toggle")


def test_without_a_build_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ncc.envs.linux, "__path__", [str(tmp_path)])
    objects.folder.cache_clear()
    try:
        with pytest.raises(DatapathError, match=r"install clang, libbpf-dev and gcc, then run `make build`"):
            objects.controller_object("dctcp")
        (tmp_path / "objects").mkdir()
        with pytest.raises(DatapathError, match="install clang and libbpf-dev, then run `make build`"):
            objects.controller_object("dctcp")
        assert objects.controllers() == ()
        with pytest.raises(DatapathError, match="install clang and libbpf-dev, then run `make build`"):
            load_datapath("linux").require(HostStack(), "controller dctcp", "leave it out")
    finally:
        objects.folder.cache_clear()


@needs("objects")
def test_an_object_of_another_version_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.bpf.o"
    wrong.write_bytes(b"no object")
    with pytest.raises(DatapathError, match=r"wrong\.bpf\.o cannot be opened"):
        Object(wrong)
    with Object(objects.bpf_object("callbacks")) as opened:
        with pytest.raises(DatapathError, match="no map 'toggle'"):
            opened.map("toggle")
        with pytest.raises(DatapathError, match="does not describe struct toggle"):
            opened.fields("toggle")
    with pytest.raises(DatapathError, match="is closed"):
        opened.map("counts")
