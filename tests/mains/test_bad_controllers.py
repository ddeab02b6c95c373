# SPDX-License-Identifier: BSD-3-Clause
"""Controllers and networks that do not fit, through the main: refused by name before anything runs."""

from pathlib import Path

import pytest

from tests.mains.commands import ncc

RACK = ("scenario=rack", "seeds=1", "workers=1")
QUEUE = ("experiment=dctcp_queue", "preset=quick", "workers=1")
REFUSED = [
    (
        (*QUEUE, "+experiment.contenders.dctcp.params.g_shift=11"),
        "dctcp.g_shift must be a whole number from 1 to 10 (gain g = 2^-g_shift of alpha's moving average",
    ),
    (
        (*QUEUE, "+experiment.contenders.dctcp.params.gain=4"),
        "Unknown parameter of dctcp 'gain'; known: abc_limit_pkts",
    ),
    (
        ("controller=dctcp", *RACK, "scenario.topology.mark_threshold_bytes=512001"),
        "topology.mark_threshold_bytes must be below buffer_bytes (512000; 0 switches marking off), got 512001",
    ),
    (
        ("controller=gemini", *RACK, "scenario.topology.mark_threshold_bytes=0"),
        "controller 'gemini' needs ECN, and no port of scenario 'rack' marks packets: set topology.mark_thresh",
    ),
    (("controller=[cubic,fixed_share]", *RACK, "scenario.topology.mark_threshold_bytes=0"), "'fixed_share' needs ECN"),
    (("experiment=dctcp_quue",), "Unknown experiment 'dctcp_quue'; known: "),
    (("controller=cubik", *RACK), "Unknown controller 'cubik'; known: bbr, cubic"),
    (("controller=ns3_vegas", *RACK, "datapath=packetsim"), "packetsim has no transport 'ns3::TcpVegas'; it has: bbr"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_refused_by_name_with_the_reason(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ncc("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["newreno", "cubic", "bbr", "vegas"])
def test_those_that_do_without_marks_run_without(name: str, tmp_path: Path) -> None:
    unmarked = "scenario.topology.mark_threshold_bytes=0"
    done = ncc("evaluate", f"controller={name}", *RACK, unmarked, "duration_s=0.02", "datapath=packetsim", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
