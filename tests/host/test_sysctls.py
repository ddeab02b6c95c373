# SPDX-License-Identifier: BSD-3-Clause
"""Settings of an agent that was killed go back, whichever agent comes next and whatever the kernel refuses."""

from pathlib import Path

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import namespaces
from ncc.host import sysctls as sysctls_module
from tests.support.linux import needs


@pytest.fixture(autouse=True)
def sysctls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Files in place of the two, as an agent left them that set both and was killed."""
    default, ecn = tmp_path / "tcp_congestion_control", tmp_path / "tcp_ecn"
    default.write_text("cubic\n")
    ecn.write_text("2\n")
    for name, value in (("DEFAULT", default), ("ECN", ecn), ("RUN", tmp_path)):
        monkeypatch.setattr(sysctls_module, name, value)
    with monkeypatch.context() as killed:
        killed.setattr(sysctls_module, "_restore", lambda _: None)
        with sysctls_module.changed([default, ecn], "ncc_dctcp"):
            pass
    assert (default.read_text(), ecn.read_text()) == ("ncc_dctcp", "1")
    return default, ecn


def test_the_next_agent_puts_back_what_it_did_not_set_itself(sysctls: tuple[Path, Path], tmp_path: Path) -> None:
    default, ecn = sysctls
    with sysctls_module.changed([default], "ncc_cubic"):
        assert (default.read_text(), ecn.read_text()) == ("ncc_cubic", "1")
    assert (default.read_text(), ecn.read_text()) == ("cubic", "2")
    assert not list(tmp_path.glob("ncc-host-*"))


def test_what_cannot_be_put_back_stays_known_and_hinders_nothing_else(
    sysctls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    default, ecn = sysctls
    write = sysctls_module._write

    def refuses(path: Path, value: str) -> None:
        if path == default:
            raise DatapathError("Cannot set it.")
        write(path, value)

    with monkeypatch.context() as refusing:
        refusing.setattr(sysctls_module, "_write", refuses)
        with pytest.raises(DatapathError, match="Cannot set it"):
            sysctls_module.restore()
    assert (default.read_text(), ecn.read_text()) == ("ncc_dctcp", "2")
    assert sysctls_module.restore() == {str(default): "cubic"}
    assert default.read_text() == "cubic"


@needs("root", "net", "pyroute2")
def test_what_was_left_in_a_namespace_that_is_gone_is_no_other_ones() -> None:
    """The record goes by the cookie, which no other namespace gets; an inode number may come again."""
    found = set()
    for i in range(5):
        namespaces.create(name := f"{namespaces.owner()}-s{i}")
        try:
            with namespaces.inside(name):
                found.add(sysctls_module._record())
        finally:
            namespaces.remove(name)
    assert len(found | {sysctls_module._record()}) == 6
