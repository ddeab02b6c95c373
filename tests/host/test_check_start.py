# SPDX-License-Identifier: BSD-3-Clause
"""`ncc host check` with options: it says all that a start would refuse, and changes nothing."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncc.envs.linux import namespaces
from ncc.host import check_start
from ncc.host.__main__ import main
from ncc.host.reload import fixed_options, parsed
from tests.host.agents import AgentProcess
from tests.host.lines import PATIENT, line, state
from tests.support.linux import TRAFFIC, needs


def test_options_without_a_policy_or_an_interface_are_no_start(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--floor", "0.1"], ["policy.ncc"]):
        assert main(["check", *arguments]) == 2
        assert "name the policy file and its --interface" in capsys.readouterr().err


@pytest.mark.parametrize(("port", "replaces"), [("947", True), ("9499", False)])
def test_options_replace_the_agent_of_the_same_port_also_if_it_dry_runs(
    port: str, replaces: bool, policy_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise an operator who ends a dry run is told that its port is in use."""
    words = [str(policy_path), *PATIENT.replace("line0", "lo").split(), "--address", "127.0.0.1"]
    runs = SimpleNamespace(pid=1, dry_run=True, alone=True, fixed=fixed_options(parsed([*words, "--dry-run"])))
    replaced = list[object]()

    def no_steps(_: object, made: object, agent: object) -> list[object]:
        assert made is not None
        replaced.append(agent)
        return []

    monkeypatch.setattr(check_start, "records", lambda: [runs])
    monkeypatch.setattr(check_start, "alive", lambda *_: True)
    monkeypatch.setattr(check_start, "_steps", no_steps)
    assert main(["check", *words, "--port", port]) == 0
    assert replaced == [runs if replaces else None]
    assert ("--dry-run changes only by a restart" in capsys.readouterr().out) == replaces


@needs(*TRAFFIC)
def test_all_that_a_start_would_refuse_is_said_at_once(
    policy_path: Path, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while an agent runs, whose port, queue, locks and name a reload or a restart takes over."""
    conf = tmp_path / "host.conf"

    def checked(text: str) -> tuple[int, str]:
        conf.write_text(text)
        with namespaces.inside(on.host):
            status = main(["check", "--config", str(conf)])
        return status, capsys.readouterr().out

    with line() as on:
        good = f"{policy_path} {PATIENT} --peers 10.8.0.2 --key {key} --name ncc_test_p"
        before = state(on)
        assert checked(good) == (0, "A start with these options is possible.\n")
        status, said = checked(f"{good} --heartbeat-s 0.0001 --metrics {tmp_path}/none/x.prom")
        assert status == 1
        assert [text.split(": ", 1)[1][:30] for text in said.splitlines()] == [
            "--heartbeat-s must be at least",
            f"cannot write {tmp_path}"[:30],
        ]
        with AgentProcess(
            on.host, ["--config", str(conf), "--heartbeat-s", "60", "--metrics", f"{tmp_path}/x.prom"]
        ) as one:
            one.wait_for("started")
            text = f"{good} --metrics {tmp_path}/x.prom"
            assert checked(f"{text} --floor 0.2")[1].endswith("takes them over by a reload.\n")
            status, said = checked(f"{text} --heartbeat-s 50")
            assert status == 0
            assert said.splitlines()[1] == "--heartbeat-s changes only by a restart (systemctl restart ncc-host)."
            with namespaces.inside(on.host):
                assert main(["status"]) in (0, 1)
                assert main(["explain"]) in (0, 1)
            out = capsys.readouterr().out
            assert "line0" in out
            assert "10.8.0.2:947 never heard" in out
            assert one.end() == 0
        with namespaces.inside(on.host):
            assert main(["status"]) == 2, "an agent that ends takes its record along"
        alone = f"{policy_path} {PATIENT} --name ncc_test_p"
        conf.write_text(alone)
        with AgentProcess(on.host, ["--config", str(conf)]) as one:
            one.wait_for("started")
            assert checked(f"{alone} --floor 0.2")[1].endswith("takes them over by a reload.\n")
            status, said = checked(f"{alone} --peers 10.8.0.2 --key {key}")
            one.process.send_signal(signal.SIGHUP)
            refused = one.wait_for("config")["said"]
            assert refused == f"{said.splitlines()[1].rstrip('.')}; the agent goes on as before"
            assert "a port below 1024 takes CAP_NET_BIND_SERVICE" in said
            assert status == 0
            assert one.end() == 0
        assert state(on) == before
        other = AgentProcess(
            on.peer, [str(policy_path), *PATIENT.replace("line0", "line1").split(), "--name", "ncc_test_p"]
        )
        with other:
            other.wait_for("started")
            status, said = checked(good)
            assert (status, "control ncc_test_p is registered already" in said) == (1, True)
