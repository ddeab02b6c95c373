# SPDX-License-Identifier: BSD-3-Clause
"""The unit: systemd takes it, it starts what was asked, and it grants what that needs and no more."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.host.__main__ import main
from ncc.host.unit import TEMPORARY, unit_text

ARGUMENTS = ["/etc/ncc/policy.ncc", "--interface", "eth0", "--uplink-rate", "1e9", "--peers", "10.0.0.2,10.0.0.3*4"]


def settings(text: str) -> dict[str, str]:
    """Those of all sections; none may be there twice."""
    pairs = [
        (line.split("=", 1)[0], line.split("=", 1)[1]) for line in text.splitlines() if line and line[0] not in "#["
    ]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def test_it_starts_what_was_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert main(["unit", "policy.ncc", *ARGUMENTS[1:], "--key", "key"]) == 0
    found = settings(capsys.readouterr().out)
    words = shlex.split(found["ExecStart"])
    assert words[1:5] == ["-I", "-m", "ncc.host", "run"]
    assert words[5:] == ["policy.ncc", *ARGUMENTS[1:], "--key", "key"]
    assert found["WorkingDirectory"] == "/usr"
    assert found["AssertPathExists"] == "/usr/policy.ncc"


def test_rights_are_those_that_are_used() -> None:
    plain = settings(unit_text(ARGUMENTS))
    assert plain["CapabilityBoundingSet"] == "CAP_BPF CAP_PERFMON CAP_NET_ADMIN"
    assert plain["ProtectKernelTunables"] == plain["RestrictRealtime"] == "yes"
    assert "ExecStopPost" not in plain
    default = settings(unit_text([*ARGUMENTS, "--default"]))
    assert "ProtectKernelTunables" not in default
    assert default["ExecStopPost"].endswith("-I -m ncc.host restore"), "settings go back even after SIGKILL"
    realtime = settings(unit_text([*ARGUMENTS, "--realtime"]))
    assert realtime["CapabilityBoundingSet"].split()[-1] == "CAP_SYS_NICE"
    assert "RestrictRealtime" not in realtime


def test_odd_words_stay_what_they_are() -> None:
    command = settings(unit_text([*ARGUMENTS, "--name", 'a b"c\\d$e%f']))["ExecStart"]
    assert command.endswith('--name "a b\\"c\\\\d$$e%%f"')


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--seconds", "3"], "--seconds ends the agent by itself"),
        (["--name", "a\nb"], r"cannot hold the argument 'a\\nb'"),
        (["--what"], "unrecognized arguments: --what; see ncc host unit --help"),
        (["--real"], "unrecognized arguments: --real"),
    ],
)
def test_what_is_no_service(more: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        unit_text([*ARGUMENTS, *more])


def test_a_policy_that_the_service_would_not_see(tmp_path: Path) -> None:
    """It has a /tmp of its own; systemd itself, which asserts that the policy is there, does not."""
    link = tmp_path / "link"
    one, other = TEMPORARY
    link.symlink_to(f"{one}/policy.ncc")
    for policy in (f"{one}/policy.ncc", f"{other}/x/policy.ncc", f"/etc/..{one}/policy.ncc", str(link)):
        with pytest.raises(ConfigError, match="is temporary, and the service would not see it"):
            unit_text([policy, *ARGUMENTS[1:]])
    with pytest.raises(ConfigError, match="/key is temporary"):
        unit_text([*ARGUMENTS, "--key", f"{one}/key"])


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (package systemd)"
)
@pytest.mark.parametrize("more", [[], ["--realtime", "--default", "--key", "/etc/ncc/key", "--name", "a%b c"]])
def test_systemd_takes_it(tmp_path: Path, more: list[str]) -> None:
    path = tmp_path / "ncc-host.service"
    path.write_text(unit_text([*ARGUMENTS, *more]))
    ended = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert "ncc-host.service" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
