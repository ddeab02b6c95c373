# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a killed agent are put back by any later agent, also if the kernel refuses one."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import device, machine, namespaces
from ncc.host import restore
from ncc.host.__main__ import main
from tests.linux.spaces import spaces
from tests.support.linux import needs


@pytest.fixture(autouse=True)
def sysctls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Files in place of the two settings, as left by a killed agent that had set both."""
    default, ecn = tmp_path / "tcp_congestion_control", tmp_path / "tcp_ecn"
    default.write_text("cubic\n")
    ecn.write_text("2\n")
    for name, value in (("DEFAULT", default), ("ECN", ecn)):
        monkeypatch.setattr(restore, name, value)
    monkeypatch.setattr(machine, "FOLDER", tmp_path / "run")
    monkeypatch.setattr(device, "restore", lambda _: False)
    with monkeypatch.context() as killed:
        killed.setattr(restore, "_restore", lambda _: None)
        with restore.alone(), restore.changed({default: "ncc_dctcp", ecn: "1"}):
            pass
    assert (default.read_text(), ecn.read_text()) == ("ncc_dctcp", "1")
    return default, ecn


def test_the_next_agent_puts_back_what_it_did_not_set_itself(sysctls: tuple[Path, Path], tmp_path: Path) -> None:
    default, ecn = sysctls
    with restore.alone(), restore.changed({default: "ncc_cubic"}):
        assert (default.read_text(), ecn.read_text()) == ("ncc_cubic", "1")
        assert restore._record().stat().st_mode & 0o777 == 0o644, "for `ncc host status` of any user"
    assert (default.read_text(), ecn.read_text()) == ("cubic", "2")
    assert not list(tmp_path.glob("run/*.json"))


def test_what_cannot_be_put_back_stays_known_and_hinders_nothing_else(
    sysctls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    default, ecn = sysctls
    write = restore._write

    def refuses(path: Path, value: str) -> None:
        if path == default:
            raise DatapathError("Cannot set it.")
        write(path, value)

    with monkeypatch.context() as refusing:
        refusing.setattr(restore, "_write", refuses)
        with pytest.raises(DatapathError, match="Cannot set it"):
            restore.restore()
    assert (default.read_text(), ecn.read_text()) == ("ncc_dctcp", "2")
    assert restore.restore() == {str(default): "cubic"}
    assert default.read_text() == "cubic"


@pytest.mark.attack("5")
def test_nobody_else_can_take_the_lock(sysctls: tuple[Path, Path]) -> None:
    """The lock was an abstract socket of this name once, which any user of the machine may bind."""
    default, ecn = sysctls
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as squatting:
        squatting.bind("\0ncc-host-default")
        assert restore.restore() == {str(default): "cubic", str(ecn): "2"}
    with restore.alone():
        (lock,) = machine.FOLDER.glob("*.lock")
        assert lock.stat().st_mode & 0o077 == 0, "whoever can open it can lock it"


def test_one_agent_has_the_lock_until_it_ends(sysctls: tuple[Path, Path]) -> None:
    with restore.alone():
        with pytest.raises(DatapathError, match="Another agent has changed settings"):
            restore.restore()
        assert main(["restore"]) == restore.TAKEN, "the removal of the package tells it from other failures"
    assert restore.restore() == {str(sysctls[0]): "cubic", str(sysctls[1]): "2"}


@pytest.mark.attack("n19")
def test_no_lock_is_left_and_one_whose_file_is_gone_is_none(
    sysctls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = fcntl.flock, list[int]()

    def late(file: int, how: int) -> None:
        """The former holder removes the file between our opening and our locking."""
        if not taken:
            (path,) = machine.FOLDER.glob("*.lock")
            path.unlink()
        taken.append(file)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with restore.alone(), pytest.raises(DatapathError, match="Another agent"), restore.alone():
        pass
    assert len(taken) == 3
    assert not list(machine.FOLDER.glob("*.lock"))


@pytest.mark.attack("n19")
@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free some space there"), (errno.ELOOP, "look at it"), (errno.EACCES, "it takes root")],
)
def test_a_lock_that_cannot_be_opened_is_explained(
    number: int, remedy: str, sysctls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(DatapathError, match=rf"^Cannot open .*\.lock: {os.strerror(number)}; {remedy}"):
        restore.restore()


@pytest.mark.attack("n52")
@needs("root")
@pytest.mark.parametrize("above", [0o755, 0o777])
def test_root_puts_back_what_an_agent_of_the_unit_s_user_left(above: int, sysctls: tuple[Path, Path]) -> None:
    """Root has given the folder to that user if nobody else may write in the folder above."""
    os.chown(machine.FOLDER, 12345, 12345)
    machine.FOLDER.parent.chmod(above)
    try:
        if above == 0o755:
            with pytest.raises(DatapathError, match="is no folder in which only"), restore.alone():
                pass
            assert restore.restore() == {str(sysctls[0]): "cubic", str(sysctls[1]): "2"}
        else:
            with pytest.raises(DatapathError, match="is no folder in which only root or this user may write"):
                restore.restore()
    finally:
        machine.FOLDER.parent.chmod(0o700)


@pytest.mark.parametrize(
    "made_by", ["a folder for all", "a link", "a file", pytest.param("another user", marks=needs("root"))]
)
@pytest.mark.attack("5")
def test_a_folder_that_others_may_write_in_is_refused(
    made_by: str, sysctls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    monkeypatch.setattr(machine, "FOLDER", folder)
    if made_by == "a link":
        folder.symlink_to(tmp_path)
    elif made_by == "a file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777 if made_by == "a folder for all" else 0o755)
    if made_by == "another user":
        os.chown(folder, 12345, -1)
        tmp_path.chmod(0o777)
    with pytest.raises(DatapathError, match="is no folder in which only root or this user may write"):
        restore.restore()
    assert sysctls[0].read_text() == "ncc_dctcp", "nothing was changed"


@needs("root", "net", "ip")
def test_what_was_left_in_a_namespace_that_is_gone_is_no_other_ones() -> None:
    """The record is named by the cookie, which stays unique; an inode number may be reused."""
    found = set()
    for i in range(5):
        with spaces(f"s{i}") as (name,), namespaces.inside(name):
            found.add(restore._record())
    assert len(found | {restore._record()}) == 6
