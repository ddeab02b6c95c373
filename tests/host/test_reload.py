# SPDX-License-Identifier: BSD-3-Clause
"""A change of a running agent's options: in force at the next period, while its limit stands in the kernel."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ncc.core.errors import ConfigError
from ncc.envs.linux import namespaces
from ncc.envs.linux.queue import kernel_limits_bps
from ncc.host.agent import Agent
from ncc.host.config_file import expanded
from ncc.host.exchange import Exchange, UdpExchange
from ncc.host.keys import Keys
from ncc.host.log import Log
from ncc.host.peers import parse_agent
from ncc.host.plan import planned
from ncc.host.reload import InForce, fixed_options, guard_of, neighbourhood_of, parsed, refusal
from ncc.policies.file import PolicyFile, load_policy_file
from tests.host.agents import AgentProcess
from tests.host.hosts import KEY, states
from tests.host.lines import PATIENT, PEER, line
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

LINK_BPS = 1e8
LATE_NS = 10**9


def written(path: Path, *words: object) -> Path:
    path.write_text("\n".join(map(str, words)))
    return path


def test_the_words_of_a_file_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf", "# all of it", "policy.ncc --peers '10.0.0.2, 10.0.0.3'  # two", "--floor 0.1")
    words = ["policy.ncc", "--peers", "10.0.0.2, 10.0.0.3", "--floor", "0.1", "--floor", "0.2"]
    assert expanded(["run", "--config", str(conf), "--floor", "0.2"]) == ["run", *words]
    assert expanded(["check", f"--config={conf}"]) == ["check", *words[:5]]
    assert expanded(["uplink", "--config", "x"]) == ["uplink", "--config", "x"]
    assert expanded([]) == []
    with pytest.raises(ConfigError, match=r"--config names one file, got a, b"):
        expanded(["run", "--config", "a", "--config", "b"])


@pytest.mark.parametrize(
    ("text", "said"), [("'no end", "No closing quotation"), ("a\0b", "A zero byte"), (None, "No such file")]
)
def test_a_file_without_words_is_refused(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        written(tmp_path / "conf", text)
    with pytest.raises(ConfigError, match=said):
        expanded(["run", "--config", str(tmp_path / "conf")])


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_options_come_from_a_plain_file(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Otherwise a pipe that nobody writes into keeps all later reloads waiting."""
    make(tmp_path / "conf")
    with pytest.raises(ConfigError, match="conf, the file of --config, is not a plain file; name one that holds"):
        expanded(["run", "--config", str(tmp_path / "conf")])


@pytest.mark.parametrize(
    ("word", "said"), [("--help", "unrecognized arguments: --help"), ("--config other", "--config cannot be shortened")]
)
def test_a_file_neither_ends_an_agent_nor_names_another_file(word: str, said: str, tmp_path: Path) -> None:
    conf = written(tmp_path / "conf", f"policy.ncc --interface eth0 {word}")
    with pytest.raises(ConfigError, match=said):
        parsed(["--config", str(conf)])


def test_a_shortened_option_is_not_passed_over() -> None:
    with pytest.raises(ConfigError, match="--config cannot be shortened"):
        parsed(["policy.ncc", "--interface", "eth0", "--conf", "other"])


def test_beats_go_on_while_a_change_is_read_however_long_that_takes(
    policy_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy file comes only after a thousand more beats."""
    conf = written(tmp_path / "conf", policy_path, PATIENT.replace("line0", "lo"), "--address 127.0.0.1 --dry-run")
    options, beats = parsed(["--config", str(conf)]), 0

    def slow(*arguments: Any) -> PolicyFile:
        until = beats + 1000
        assert eventually(lambda: beats > until), "no beat comes while it is read"
        return load_policy_file(*arguments)

    with ExitStack() as undo:
        now = InForce(options, plan := planned(options), log := Log(lambda _: None), undo)
        hosts = neighbourhood_of(plan)
        loop = Mock(agent=Agent(hosts, guard_of(plan, hosts, log), Exchange()))
        monkeypatch.setattr("ncc.host.plan.load_policy_file", slow)
        for more, counters in (("", {"taken": 1, "refused": 0}), ("--floor 9", {"taken": 1, "refused": 1})):
            written(conf, conf.read_text(), more)
            now.read_again()
            while now.reads:
                now.take(loop)
                beats += 1
            assert now.counters == counters
    assert "--floor" in now.refused
    assert beats > 1000
    monkeypatch.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
    now.read_again()
    assert not now.take(loop), "no room for a thread: the limit holds, and the agent goes on as before"
    assert "can't start new thread" in now.refused
    assert not now.reads


def test_options_that_need_a_restart_are_named(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf", "policy.ncc --interface eth0 --floor 0.1")
    options = parsed(["--config", str(conf)])
    before = fixed_options(options)
    written(conf, "other.ncc --interface eth0 --floor 0.2 --peers 10.0.0.2 --key k")
    assert refusal(before, fixed_options(parsed(options.given))) == ""
    written(conf, "policy.ncc --interface eth1 --heartbeat-s 3")
    assert refusal(before, fixed_options(parsed(options.given))).startswith(
        "--interface, --heartbeat-s change only by a restart"
    )
    receiving = "policy.ncc --interface eth0 --receivers 200000 --peers 10.0.0.2 --key k"
    before = fixed_options(parsed(receiving.split()))
    assert refusal(before, fixed_options(parsed([*receiving.split(), "--peers", "10.0.0.3"]))).startswith(
        "--peers beside --receivers changes only"
    )


def test_another_exchange_takes_the_socket_and_its_messages_over() -> None:
    """Messages of a peer that stays are read, and those of one that has gone are dropped."""
    keys, me = Keys.shared(KEY), parse_agent("127.0.0.1:9981")
    stays, goes = parse_agent("127.0.0.1:9982"), parse_agent("127.0.0.1:9983")
    first = UdpExchange(keys, me, (*stays, *goes), late_ns=LATE_NS)
    others = [UdpExchange(keys, one, me, late_ns=LATE_NS) for one in (stays, goes)]
    try:
        for other in others:
            other.send(states(1, queued_bytes=7.0), time.monotonic_ns())
        second = UdpExchange(keys, me, stays, late_ns=LATE_NS, before=first)
        second.receive(time.monotonic_ns())
        assert second.inbox.states["queued_bytes"].tolist() == [7.0]
        assert (second.counters["received"], second.counters["unknown_sender"]) == (1, 1)
        others[1].send(states(1), time.monotonic_ns())
        second.receive(time.monotonic_ns())
        assert second.counters["unknown_sender"] == 1, "the kernel drops it by the new filter"
        with pytest.raises(ConfigError, match="no key for what"):
            UdpExchange(Keys({}), me, goes, late_ns=LATE_NS, before=second)
        others[0].send(states(1, queued_bytes=9.0), time.monotonic_ns())
        second.receive(time.monotonic_ns())
        assert second.inbox.states["queued_bytes"].tolist() == [9.0], "a refused one has changed nothing"
    finally:
        for exchange in (first, *others):
            exchange.close()


class Ceilings:
    """Limits that the kernel has over a time, read as fast as possible."""

    def __init__(self, namespace: str) -> None:
        self._namespace, self.seen = namespace, set[float | None]()

    def until(self, agent: AgentProcess, event: str, n: int) -> Sequence[dict[str, Any]]:
        """Watch until the agent has logged an event n times; return these lines."""
        end_s = time.monotonic() + PATIENCE_S
        with namespaces.inside(self._namespace):
            while len(agent.events(event)) < n and time.monotonic() < end_s:
                found = list(kernel_limits_bps("line0"))
                assert found, "the queue is there all along"
                self.seen |= {None if limit is None else round(limit / 1e6) for limit in found}
        return agent.events(event)


@needs(*TRAFFIC)
def test_the_limit_stands_in_the_kernel_while_options_change(policy_path: Path, key: str, tmp_path: Path) -> None:
    def conf(most: float, *more: str) -> Path:
        words = f"--floor {most} --max-rate-frac {most} --name ncc_test_r --log-s 0.2 --port 9471"
        return written(tmp_path / "conf", policy_path, PATIENT, words, *more)

    with line() as on, AgentProcess(on.host, ["--config", str(conf(0.2))]) as agent:
        agent.wait_for("started")
        watch = Ceilings(on.host)
        with on.sending():
            assert eventually(lambda: [one for one in agent.events("report") if one.get("limits_bps") == [20_000_000]])
            peers = f"--peers {PEER} --key {key}"
            changes = [(0.1, ""), (0.2, ""), (0.1, peers), (0.1, peers), (0.2, "")]
            for n, (most, more) in enumerate(changes, 1):
                conf(most, more)
                agent.process.send_signal(signal.SIGHUP)
                assert watch.until(agent, "config", n)[-1]["level"] == "info"
            (tmp_path / "conf").unlink()
            os.mkfifo(tmp_path / "conf")  # what is read from it never ends
            agent.process.send_signal(signal.SIGHUP)
            assert "is not a plain file" in watch.until(agent, "config", len(changes) + 1)[-1]["said"]
            (tmp_path / "conf").unlink()
            conf(0.1, "--heartbeat-s 50 --netns other")
            agent.process.send_signal(signal.SIGHUP)
            refused = watch.until(agent, "config", len(changes) + 2)[-1]
            assert refused["said"].startswith("--netns, --heartbeat-s change only by a restart")
            written(tmp_path / "conf", tmp_path / "none.ncc", PATIENT, "--name ncc_test_r --log-s 0.2")
            agent.process.send_signal(signal.SIGHUP)
            refused = watch.until(agent, "config", len(changes) + 3)[-1]
            assert refused["said"].endswith("the agent goes on as before")
            assert eventually(lambda: agent.events("report")[-1]["limits_bps"] == [20_000_000])
        assert watch.seen == {10, 20}, "in Mbit/s: the limit of before, or the one of after"
        assert agent.end() == 0
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0
