# SPDX-License-Identifier: BSD-3-Clause
"""Programs for the kernel: every controller has one, the verifier accepts it, and errors name missing ones."""

from pathlib import Path

import numpy as np
import pytest

import ncc.envs.linux
from ncc.baselines.registry import check_params, controllers
from ncc.core import extras
from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.envs.linux import layout, objects
from ncc.envs.linux.extension import bpf, memory
from ncc.harness.datapath import HostStack
from ncc.run.compose import load_datapath
from tests.linux.lab import facts
from tests.support.linux import KERNEL, needs

VERIFIED_MOST = 250_000
"""Most instructions that the verifier may visit; it gives up at a million. The longest program takes half of these."""


@needs("objects")
def test_every_controller_was_built() -> None:
    assert objects.controllers() == tuple(
        sorted(name for name, info in controllers().items() if not info.needs.simulated)
    )
    assert all(len(objects.congestion_name(name)) <= objects.NAME_BYTES for name in objects.controllers())


@needs(*KERNEL)
@pytest.mark.parametrize("name", sorted(objects.bpf_objects()))
def test_the_verifier_is_far_from_giving_up(name: str) -> None:
    opened = bpf().Object(str(objects.require_built()[name]))
    if name.startswith("shim_"):
        params, values = np.zeros(1, layout.PARAMS), check_params(name.removeprefix("shim_"), {}).values()
        params["values"][0, : len(values)] = list(values)
        opened.set(".rodata.params", params.tobytes())
    opened.load()
    assert all(facts(fd)["verified_insns"] < VERIFIED_MOST for fd in opened.programs.values())
    opened.close()


@needs("objects")
def test_a_controller_may_have_another_name() -> None:
    path = objects.controller_object("dctcp")
    data = objects.renamed(path, "dctcp", "mine")
    assert (data.count(b"mine\0"), data.count(b"ncc_dctcp\0"), len(data)) == (1, 0, path.stat().st_size)
    with pytest.raises(ConfigError, match="1 to 15 small letters, digits and _, got 'No'"):
        objects.renamed(path, "dctcp", "No")


@needs("objects")
def test_what_was_not_built_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"in the kernel 'dctpc'. Did you mean 'dctcp'\? Known: .*dctcp"):
        objects.controller_object("dctpc")
    with pytest.raises(DatapathError, match="helper program toggle was not built: install gcc"):
        objects.helper("toggle")


def test_without_a_build_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ncc.envs.linux, "__path__", [str(tmp_path)])
    for built in (False, True):  # without any folder, then with an empty one
        objects.folder.cache_clear()
        if built:
            (tmp_path / "objects").mkdir()
        try:
            with pytest.raises(DatapathError, match="install clang and libbpf-dev, then run `make build`"):
                objects.controller_object("dctcp")
            with pytest.raises(DatapathError, match="helper program traffic was not built: install gcc"):
                objects.helper("traffic")
            assert objects.controllers() == ()
            with pytest.raises(DatapathError, match="install clang and libbpf-dev, then run `make build`"):
                load_datapath("linux").require(HostStack(), "controller dctcp", "leave it out")
        finally:
            objects.folder.cache_clear()


def test_without_libbpf_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("libbpf.so.1: cannot open shared object file")

    monkeypatch.setattr(extras, "import_module", fail)
    extras.load_extension.cache_clear()
    with pytest.raises(
        DatapathError, match=r"_bpf cannot be loaded \(libbpf.so.1.*install clang, libbpf-dev and libbpf1"
    ):
        bpf()


@needs("objects")
def test_an_object_of_another_version_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.bpf.o"
    wrong.write_bytes(b"no object")
    with pytest.raises(DatapathError, match=r"wrong\.bpf\.o cannot be opened; rebuild it with make build"):
        bpf().Object(str(wrong))
    opened = bpf().Object(str(objects.controller_object("dctcp")))
    with pytest.raises(DatapathError, match="has no map toggle: rebuild it"):
        opened.shape("toggle")
    with pytest.raises(DatapathError, match="rows of 192 bytes and ncc expects 128"):
        memory(opened, "reports", layout.HOST)
    with pytest.raises(DatapathError, match=r"Section \.rodata\.params .* cannot be set"):
        opened.set(".rodata.params", bytes(8))
    opened.close()
    opened.close()
    with pytest.raises(DatapathError, match="is closed"):
        opened.shape("reports")
