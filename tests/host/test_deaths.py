# SPDX-License-Identifier: BSD-3-Clause
"""Deaths, pauses and changes of an agent under load: its limit holds while it lives, and goes when it is silent."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ncc.envs.linux import namespaces
from ncc.envs.linux.queue import kernel_limits_bps
from tests.host.agents import AgentProcess
from tests.host.lines import LIMIT_BPS, OPTIONS, line, restore, state
from tests.linux.lines import Line, sending
from tests.linux.rates import exceeds
from tests.support.attacks import MARKER
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

MANY, FEW = 50, 3
"""Rounds of `make attack`, and of any other run."""
FLOWS, WINDOW_S, SAMPLE_S = 4, 1.0, 0.02
OVER_FRAC = 1.05
"""Most that may be sent in a second of life, as a fraction of what is allowed."""
QUIET_BYTES = 3_000
"""Least that leaves outside the limit between two reports if the heartbeat does not come."""
WORDS = [*OPTIONS, "--heartbeat-s", "0.5", "--name", "ncc_test_d"]

pytestmark = [needs(*TRAFFIC), pytest.mark.attack("n17", "n18")]


class Sample(NamedTuple):
    at_s: float
    sent_bytes: int
    limit_bps: float | None


class Watch:
    """Samples of what leaves a host, and of its limit in the kernel."""

    def __init__(self, on: Line) -> None:
        self._on, self.worst_frac = on, 0.0

    def take(self) -> Sample:
        with namespaces.inside(self._on.host):
            limit_bps = next(kernel_limits_bps("line0"), None)
        return Sample(time.monotonic(), self._on.sent()[0], limit_bps)

    def live(self, agent: AgentProcess) -> None:
        """Judge more than a second of a life that begins when nothing of what silence let through leaves any more."""
        n = len(agent.events("report"))
        assert eventually(lambda: len(agent.events("report")) >= n + 2 and opens(agent) < QUIET_BYTES)
        life = [self.take()]
        while life[-1].at_s - life[0].at_s < 1.2 * WINDOW_S:
            time.sleep(SAMPLE_S)
            life.append(self.take())
        self.judge(life)

    def judge(self, life: list[Sample]) -> None:
        """Check that the limit is there in all samples, and what was sent in each second between them."""
        at_s, sent_bytes, limits_bps = (np.array(column, np.float64) for column in zip(*life, strict=True))
        assert np.isfinite(limits_bps).all(), "no limit is in the kernel"
        allowed_bits = np.cumsum([0.0, *np.maximum(limits_bps[1:], limits_bps[:-1]) * np.diff(at_s)])
        for i, j in enumerate(np.searchsorted(at_s, at_s + WINDOW_S).tolist()):
            if j < len(life):
                over = 8 * (sent_bytes[j] - sent_bytes[i]) / (allowed_bits[j] - allowed_bits[i])
                self.worst_frac = max(self.worst_frac, over)
        assert self.worst_frac <= OVER_FRAC


def opens(agent: AgentProcess) -> int:
    """Bytes that left outside the limit between the last two reports."""
    before, after = (report["queue"]["open_bytes"] for report in agent.events("report")[-2:])
    return int(after - before)


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return MANY if request.config.option.markexpr == MARKER else FEW


@contextmanager
def loaded() -> Iterator[tuple[Line, Watch]]:
    """A line under datagrams and connections that together send many times the limit."""
    with line() as on, ExitStack() as opened:
        before = state(on)
        senders = [opened.enter_context(on.flowing()) for _ in range(FLOWS)]
        with sending(*senders, opened.enter_context(on.datagrams())):
            yield on, (watch := Watch(on))
        print(f"bytes sent over bytes allowed in the worst second of life: {watch.worst_frac:.3f}")
        restore(on)
        assert state(on) == before


def test_a_killed_agent_leaves_no_limit_and_the_next_one_limits_again(policy_path: Path, rounds: int) -> None:
    with loaded() as (on, watch):
        for _ in range(rounds):
            with AgentProcess(on.host, [str(policy_path), *WORDS]) as agent:
                agent.wait_for("report")
                watch.live(agent)
                agent.end(signal.SIGKILL)
            assert exceeds(on.count, 2 * LIMIT_BPS)


def test_an_agent_that_stands_still_leaves_no_limit_and_limits_again_afterwards(policy_path: Path, rounds: int) -> None:
    with loaded() as (on, watch), AgentProcess(on.host, [str(policy_path), *WORDS]) as agent:
        agent.wait_for("report")
        for _ in range(rounds):
            watch.live(agent)
            agent.process.send_signal(signal.SIGSTOP)
            assert exceeds(on.count, 2 * LIMIT_BPS)
            agent.process.send_signal(signal.SIGCONT)
        watch.live(agent)
        assert agent.end() == 0


def test_a_limit_is_never_missing_while_options_change(policy_path: Path, tmp_path: Path, rounds: int) -> None:
    conf = tmp_path / "conf"
    conf.write_text(f"{policy_path} {' '.join(WORDS)}")
    with loaded() as (on, watch), AgentProcess(on.host, ["--config", str(conf)]) as agent:
        agent.wait_for("report")
        watch.live(agent)
        life = [watch.take()]
        for n in range(1, rounds + 1):
            frac = 0.1 * (1 + n % 2)
            conf.write_text(f"{policy_path} {' '.join(WORDS)} --floor {frac} --max-rate-frac {frac}")
            agent.process.send_signal(signal.SIGHUP)
            until_s = time.monotonic() + PATIENCE_S
            while len(agent.events("config")) < n and time.monotonic() < until_s:
                life.append(watch.take())
                time.sleep(SAMPLE_S)
            assert [event["level"] for event in agent.events("config")] == ["info"] * n
        watch.judge(life)
        assert {one.limit_bps and round(one.limit_bps / LIMIT_BPS, 3) for one in life} == {1, 2}
        assert agent.end() == 0
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0
