# SPDX-License-Identifier: BSD-3-Clause
"""Deaths, pauses and changes of an agent under load: its limit holds while it lives, and goes when it is silent."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.envs.linux import namespaces
from ncc.envs.linux.queue import kernel_limits_bps
from tests.host.agents import AgentProcess
from tests.host.lines import LIMIT_BPS, OPTIONS, line, restore, state
from tests.linux.lines import Line, sending
from tests.linux.rates import BURST_BYTES, exceeds
from tests.support.attacks import MARKER
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

MANY, FEW = 50, 3
"""Rounds of `make attack`, and of any other run."""
FLOWS, SAMPLE_S = 4, 0.02
OVER_FRAC = 1.05
"""Most that may be sent in a second of life, as a fraction of what is allowed."""
QUIET_BYTES = 3_000
"""Least that leaves outside the limit between two reports if the heartbeat does not come."""
WORDS = [*OPTIONS, "--name"]

pytestmark = [needs(*TRAFFIC), pytest.mark.attack("n17", "n18")]


class Sample(NamedTuple):
    """Bytes sent by some time between two bounds, and the limit in the kernel then."""

    sent_bytes: int
    earliest_ns: int
    latest_ns: int
    limit_bps: float | None


class Watch:
    """Samples of what leaves a host, and of its limit in the kernel."""

    def __init__(self, on: Line) -> None:
        self._on, self.worst_frac = on, 0.0

    def take(self) -> Sample:
        with namespaces.inside(self._on.host):
            limit_bps = next(iter(kernel_limits_bps("line0")), None)
        return Sample(*self._on.count(), limit_bps)

    def live(self, agent: AgentProcess) -> None:
        """Judge more than a second of a life that begins when nothing of what silence let through leaves any more."""
        n = len(agent.events("report"))
        assert eventually(lambda: len(agent.events("report")) >= n + 2 and opens(agent) < QUIET_BYTES)
        life = [self.take()]
        while life[-1].earliest_ns - life[0].latest_ns < 1.2 * NS_PER_S:
            time.sleep(SAMPLE_S)
            life.append(self.take())
        self.judge(life)

    def judge(self, life: list[Sample]) -> None:
        """Check that the limit is there in all samples, and what was sent in each second between them."""
        sent_bytes, earliest_ns, latest_ns, limits_bps = np.array(life, np.float64).T
        assert np.isfinite(limits_bps).all(), "no limit is in the kernel"
        most_bps = np.maximum(limits_bps[1:], limits_bps[:-1])
        allowed_bits = np.cumsum([0.0, *most_bps * np.diff(earliest_ns)]) / NS_PER_S
        late_bits = limits_bps * (latest_ns - earliest_ns) / NS_PER_S
        for i, j in enumerate(np.searchsorted(earliest_ns, latest_ns + NS_PER_S).tolist()):
            if j < len(life):
                most_bits = allowed_bits[j] - allowed_bits[i] + late_bits[j] + 8 * BURST_BYTES
                self.worst_frac = max(self.worst_frac, 8 * (sent_bytes[j] - sent_bytes[i]) / most_bits)
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
        logging.info("bytes sent over bytes allowed in the worst second of life: %.3f", watch.worst_frac)
        restore(on)
        assert state(on) == before


def test_a_killed_agent_leaves_no_limit_and_the_next_one_limits_again(policy_path: Path, rounds: int) -> None:
    with loaded() as (on, watch):
        for _ in range(rounds):
            with AgentProcess(on.host, [str(policy_path), *WORDS, "ncc_test_k"]) as agent:
                agent.wait_for("report")
                watch.live(agent)
                agent.end(signal.SIGKILL)
            assert exceeds(on.count, 2 * LIMIT_BPS)


def test_an_agent_that_stands_still_leaves_no_limit_and_limits_again_afterwards(policy_path: Path, rounds: int) -> None:
    with loaded() as (on, watch), AgentProcess(on.host, [str(policy_path), *WORDS, "ncc_test_w"]) as agent:
        agent.wait_for("report")
        for _ in range(rounds):
            watch.live(agent)
            agent.process.send_signal(signal.SIGSTOP)
            assert exceeds(on.count, 2 * LIMIT_BPS)
            agent.process.send_signal(signal.SIGCONT)
        watch.live(agent)
        assert agent.end() == 0
    ended = agent.wait_for("ended")
    assert ended["guard"]["suspensions"] > 0, "it says so, also if no connection of its own was there"
    assert ended["queue"]["silent_pkts"] > 0


def test_a_limit_is_never_missing_while_options_change(policy_path: Path, tmp_path: Path, rounds: int) -> None:
    conf = tmp_path / "conf"
    conf.write_text(f"{policy_path} {' '.join(WORDS)} ncc_test_h")
    with loaded() as (on, watch), AgentProcess(on.host, ["--config", str(conf)]) as agent:
        agent.wait_for("report")
        watch.live(agent)
        life = [watch.take()]
        for n in range(1, rounds + 1):
            frac = 0.1 * (1 + n % 2)
            conf.write_text(f"{policy_path} {' '.join(WORDS)} ncc_test_h --floor {frac} --max-rate-frac {frac}")
            agent.process.send_signal(signal.SIGHUP)
            until_s = time.monotonic() + PATIENCE_S
            while round((life[-1].limit_bps or 0.0) / LIMIT_BPS, 3) != 1 + n % 2:
                assert time.monotonic() < until_s, agent.lines[-3:]
                time.sleep(SAMPLE_S)
                life.append(watch.take())
        watch.judge(life)
        assert {one.limit_bps and round(one.limit_bps / LIMIT_BPS, 3) for one in life} == {1, 2}
        assert agent.end() == 0
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0
