# SPDX-License-Identifier: BSD-3-Clause
"""Controllers and networks that do not fit, through the main: refused by name before anything runs."""

import json
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
    (("controller=[]", *RACK), "controller must name at least one of bbr, cubic, "),
    (("controller=[]", *RACK), "; controller=list says what each is"),
    (("controller=gemini", *RACK, "+params.gemini.capacity=1"), "gemini 'capacity'; known: abc_limit_pkts"),
    (
        ("controller=gemini", *RACK, "+params.gemini.capacity_mbps=0"),
        "gemini.capacity_mbps must be a whole number from 1",
    ),
    (("controller=gemini", *RACK, "+params.gemini.capacity_mbps=fast"), "got 'fast'"),
    (("controller=gemini", *RACK, "params={gemini: 1}"), "params.gemini must name parameters"),
    (("controller=gemini", *RACK, "+params.dctcp.g_shift=4"), "Unknown controller in params 'dctcp'; known: gemini"),
    (("controller=ncc", *RACK, "+params.ncc.g_shift=4"), "'ncc' runs on the stack that its policy was trained on"),
    ((*QUEUE, "+params.dctcp.g_shift=4"), "an experiment says its own params"),
    (("controller=ncc_untrained", *RACK), "'ncc_untrained' needs a trained policy; name the run that made it: run="),
    (("controller=dctcp", *RACK, "bounds=maybe"), "configuration.bounds"),
    (("controller=[dctcp,dctcp]",), "evaluation.controllers names one twice: dctcp, dctcp"),
    (("controller=cubik", *RACK), "Unknown controller 'cubik'; known: bbr, cubic"),
    (("controller=ns3_vegas", *RACK, "datapath=packetsim"), "packetsim has no transport 'ns3::TcpVegas'; it has: bbr"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_refused_by_name_with_the_reason(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ncc("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
    assert not (tmp_path / "runs").exists()


def test_parameters_are_set_and_recorded(tmp_path: Path) -> None:
    few = ("controller=gemini", *RACK, "duration_s=0.02", "datapath=packetsim")
    for params in ((), ("+params.gemini.capacity_mbps=10000",), ("params={gemini: {capacity_mbps: 20000}}",)):
        done = ncc("evaluate", *few, *params, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    runs = tmp_path.glob("runs/*/packetsim/gemini/0/manifest.json")
    manifests = [json.loads(path.read_text()) for path in runs]
    found = [manifest["facts"]["controller"]["stack"]["params"] for manifest in manifests]
    assert sorted(found) == [[], [["capacity_mbps", 10000]], [["capacity_mbps", 20000]]], "a folder each"


@pytest.mark.parametrize("name", ["newreno", "cubic", "bbr", "vegas"])
def test_those_that_do_without_marks_run_without(name: str, tmp_path: Path) -> None:
    unmarked = "scenario.topology.mark_threshold_bytes=0"
    done = ncc("evaluate", f"controller={name}", *RACK, unmarked, "duration_s=0.02", "datapath=packetsim", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
