# SPDX-License-Identifier: BSD-3-Clause
"""Settings that cannot be used: refused in one sentence, by name and with what is allowed, before anything starts."""

from pathlib import Path

import pytest

from tests.house.files import ROOT
from tests.mains.commands import TINY, ncc

RACK = ("scenario=rack", "seeds=1", "workers=1")
QUEUE = ("experiment=dctcp_queue", "preset=quick", "workers=1")
FLUID = "+datapath.fluid.target=tests.support.fluid:FluidDatapath"
ON_FLUID = ("datapath=ns3", "~datapath.ns3", FLUID)
NCC = "experiment=ncc"

Words = str | tuple[str, ...]
"""One override or several."""

TRAIN: list[tuple[Words, str]] = [
    ("scenario=rak", "Unknown scenario 'rak'; known: dumbbell"),
    ("scenrio=rack", "Did you mean 'scenario'"),
    ("scenario.topology.hosts=[1", "Cannot read override"),
    ("scenario.topology.hostz=3", "Did you mean 'hosts'"),
    ("scenario.topology.hosts=-3", "scenario.topology.hosts"),
    ("scenario.topology.host_rate_bps=10ms", "scenario.topology.host_rate_bps is a rate and cannot be '10ms', a time"),
    (
        "scenario.topology.host_rate_bps=10GBps",
        "scenario.topology.host_rate_bps is in bits per second: 10GBps is bytes per second; write 80Gbps",
    ),
    ("scenario.topology.delay_s=10", "scenario.topology.delay_s is 10, where at most 0.5 is usual"),
    ("agent.learning_rate=1", "add consent=true"),
    ("agent.mode=asyn", "agent.mode cannot be 'asyn'; allowed: async, sync. Did you mean 'async'?"),
    ("agent=ppo", "Did you mean 'rllib_ppo'"),
    ("scenario.workload.websearch.load_frac=1e-6", "draws no flow"),
    ("scenario.workload.websearch.distribution=wobsearch", "websearch"),
    ("env.action.levels=0", "levels"),
    ("env.reward.kind=backlog", "choose env/reward=backlog"),
    (("evaluation.executor=ray", "evaluation.address=nowhere"), "address must be auto or host:port"),
    ("evaluation.controllers=[ncc,dtcp]", "Did you mean 'dctcp'"),
    ("evaluation.controllers=[dctcp,dctcp]", "twice"),
    ("evaluation.duration_s=1e-9", "evaluation.duration_s"),
    ("stack.transport=dtcp", "Did you mean 'dctcp'"),
    ("stack.order_params=[[kappa,1]]", "Unknown parameter of flow order fifo 'kappa'"),
    ("datapath.packetsim.target=nowhere:Thing", "nowhere"),
    ("datapath.packetsim.target=os:getcwd", "os:getcwd"),
    ("+nonsense=1", "nonsense"),
    ("out=/proc/nowhere", "out=/proc/nowhere"),
    ("evaluation.datapaths=[ns4]", "Did you mean 'ns3'"),
    ("evaluation.datapaths=[ns3,ns3]", "evaluation.datapaths names one twice"),
    (FLUID, "training takes place on one datapath, got"),
    (
        (*ON_FLUID, "evaluation.datapaths=[fluid,ns3]", "evaluation.controllers=[dctcp,ns3_cubic]"),
        "controller 'ns3_cubic': datapath fluid has no transport 'ns3::TcpCubic'; it has: aborts, broken, dctcp",
    ),
    (
        (*ON_FLUID, "evaluation.datapaths=[ns3]", "stack.transport=slow"),
        "controller 'ncc': datapath ns3 has no transport 'slow'",
    ),
]
RECIPE: list[tuple[Words, str]] = [
    ("datapath=ns3", "which ns3 does not"),
    ("agent.epochs=100", "lower families.epochs"),
    (("env.observation.neighbours=each", "env.action.kind=levels"), "set env.observation.neighbours to pooled"),
    ("families.hosts_per_slot=48", "networks of 32 hosts do not fill a slot of families.hosts_per_slot = 48"),
    ("families.of.uplink.weight=0", "families.of.uplink.weight"),
    ("families.of.uplink.scenario.topology.host_rate_bps=-1", "families.of.uplink.scenario.topology.host_rate_bps"),
    ("+families.of.uplink.varies.duration_s={kind:choice,values:[1]}", "families.of.uplink.varies"),
    ("expert={kind:shortest}", "shortest_first"),
    ("expert=null", "set expert, say to {kind: shortest_first}"),
]
EVALUATE: list[tuple[tuple[str, ...], str]] = [
    (("controller=dtcp", *RACK), "Unknown controller 'dtcp'; known: bbr, cubic"),
    (("controller=[]", *RACK), "controller must name at least one of bbr, cubic, "),
    (("controller=[dctcp,dctcp]",), "evaluation.controllers names one twice: dctcp, dctcp"),
    (("controller=ncc_untrained", *RACK), "'ncc_untrained' needs a trained policy; name the run that made it: run=<"),
    (("controller=gemini", *RACK, "+params.gemini.capacity=1"), "gemini 'capacity'; known: abc_limit_pkts"),
    (
        ("controller=gemini", *RACK, "+params.gemini.capacity_mbps=0"),
        "gemini.capacity_mbps must be a whole number from 1",
    ),
    (("controller=gemini", *RACK, "params={gemini: 1}"), "params.gemini must name parameters"),
    (("controller=gemini", *RACK, "+params.dctcp.g_shift=4"), "Unknown controller in params 'dctcp'; known: gemini"),
    (("controller=ncc", *RACK, "+params.ncc.g_shift=4"), "'ncc' runs on the stack that its policy was trained on"),
    (("controller=dctcp", *RACK, "bounds=maybe"), "configuration.bounds"),
    (("controller=dctcp", "scenario=rack", "seeds=0"), "seeds"),
    (("controller=dctcp", "scenario=rack", "datapath=[]"), "datapath names none"),
    (("controller=dctcp", "scenario=rack", "datapath=[packetsim,packetsim]"), "datapath names one twice"),
    (("controller=ns3_vegas", *RACK, "datapath=packetsim"), "packetsim has no transport 'ns3::TcpVegas'; it has: bbr"),
    (
        ("controller=[dctcp,ns3_vegas]", *RACK, "datapath=ns3", FLUID),
        "Leave the controller out, or judge without fluid.",
    ),
    (("scenario=rack", "scenario.workload.websearch.load_frac=80"), "if that is meant, add consent=true"),
    (
        ("controller=dctcp", *RACK, "scenario.topology.mark_threshold_bytes=512001"),
        "topology.mark_threshold_bytes must be below buffer_bytes (512000; 0 switches marking off), got 512001",
    ),
    (
        ("controller=gemini", *RACK, "scenario.topology.mark_threshold_bytes=0"),
        "controller 'gemini' needs ECN, and no port of scenario 'rack' marks packets: set topology.mark_thresh",
    ),
    (("controller=[cubic,fixed_share]", *RACK, "scenario.topology.mark_threshold_bytes=0"), "'fixed_share' needs ECN"),
    (("experiment=dctcp_quue",), "Did you mean 'dctcp_queue'"),
    (("experiment=ncc",), "Unknown experiment 'ncc'; known: bbr_cycle"),
    (("experiment=dctcp_queue", "preset=qick"), "Did you mean 'quick'"),
    ((*QUEUE, "scenario=rack"), "an experiment says its own scenario"),
    ((*QUEUE, "+params.dctcp.g_shift=4"), "an experiment says its own params"),
    (
        (*QUEUE, "+experiment.contenders.dctcp.params.g_shift=11"),
        "dctcp.g_shift must be a whole number from 1 to 10 (gain g = 2^-g_shift of alpha's moving average",
    ),
    ((*QUEUE, "experiment.contenders.dctcp.controller=cubik"), "Unknown controller 'cubik'"),
    (
        (*QUEUE, "experiment.axes.k.values=[20,65,1000]", "experiment.presets.quick.axes.k=[1000]"),
        "k 1000: scenario.topology.mark_threshold_bytes must be below buffer_bytes",
    ),
    (("agent=ppo",), "ncc evaluate has no group agent; its groups are datapath, scenario, env, exp"),
    (("scenario/topology=rack",), "changes a scenario, and none is chosen; choose scenario= as well"),
]
OTHERS: list[tuple[str, tuple[str, ...], str]] = [
    ("report", ("agent=ppo",), "ncc report has no group agent"),
    ("train", ("experiment=nc",), "Did you mean 'ncc'?"),
    ("train", ("experiment=dctcp_queue",), "recipes of training are: ncc"),
]


def _words(typed: Words) -> tuple[str, ...]:
    return (typed,) if isinstance(typed, str) else typed


def training(override: Words) -> tuple[str, ...]:
    """Overrides of a tiny training with this one in the place of its own."""
    given = _words(override)
    keys = {word.split("=", maxsplit=1)[0] for word in given}
    return (*(word for word in TINY if word.split("=", maxsplit=1)[0] not in keys), *given)


CASES = [
    *(("train", training(override), said) for override, said in TRAIN),
    *(("train", (NCC, *_words(typed)), said) for typed, said in RECIPE),
    *(("evaluate", arguments, said) for arguments, said in EVALUATE),
    *OTHERS,
]


@pytest.mark.parametrize(("main", "arguments", "said"), CASES, ids=[f"{m} {' '.join(a)} {s[:9]}" for m, a, s in CASES])
def test_refused_by_name_with_the_reason(main: str, arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ncc(main, *arguments, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
    assert not list(tmp_path.rglob("manifest.json"))


def test_an_infinite_wait_with_too_much_load_is_refused(tmp_path: Path) -> None:
    done = ncc("train", "scenario.drain_s=null", "scenario.workload.websearch.load_frac=1.2", cwd=tmp_path)
    assert done.returncode == 2
    assert "tor->core" in done.stderr
    assert "load_frac" in done.stderr


def test_a_sweep_says_at_which_job_it_ended(tmp_path: Path) -> None:
    done = ncc("train", "-m", *TINY, "seed=-1,2", cwd=tmp_path)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert "seed must be" in first
    assert second.startswith("the sweep ends here, at ")
    assert second.endswith("seed=-1")


@pytest.mark.parametrize("text", [None, "null", "[]", "{}", '{"agent": 1}', "{", '{"seed": 1}'])
def test_a_damaged_configuration_is_refused(text: str | None, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    if text is not None:
        (tmp_path / "run" / "config.json").write_text(text)
    done = ncc("train", "resume=run", cwd=tmp_path)
    assert done.returncode == 1
    assert "config.json" in done.stderr
