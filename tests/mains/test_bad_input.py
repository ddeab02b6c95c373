# SPDX-License-Identifier: BSD-3-Clause
"""What cannot be used is said in one sentence that names the field and what is allowed, before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from ncc.config_files import config_paths
from tests.mains.commands import TINY, ncc

TRAIN = [
    ("scenario=rak", "Unknown scenario 'rak'; known: dumbbell"),
    ("scenrio=rack", "Did you mean 'scenario'"),
    ("scenario.topology.hosts=[1", "Cannot read override"),
    ("scenario.topology.hostz=3", "Did you mean 'hosts'"),
    ("scenario.topology.hosts=-3", "scenario.topology.hosts"),
    ("scenario.topology.hosts=many", "scenario.topology.hosts"),
    ("scenario.duration_s=0", "scenario.duration_s"),
    ("scenario.topology.host_rate_bps=10ms", "scenario.topology.host_rate_bps is a rate and cannot be '10ms', a time"),
    (
        "scenario.topology.host_rate_bps=10GBps",
        "scenario.topology.host_rate_bps is in bits per second: 10GBps is bytes per second; write 80Gbps",
    ),
    ("scenario.topology.delay_s=10", "scenario.topology.delay_s is 10, where at most 0.5 is usual"),
    ("agent.learning_rate=1", "add consent=true"),
    ("agent.mode=asyn", "agent.mode cannot be 'asyn'; allowed: async, sync. Did you mean 'async'?"),
    ("agent=ppo", "Did you mean 'rllib_ppo'"),
    ("scenario.workload.websearch.load_frac=-1", "load_frac"),
    ("scenario.workload.websearch.distribution=wobsearch", "websearch"),
    ("scenario.workload.websearch.sources=nobody", "hosts, remotes"),
    ("scenario.topology.mark_threshold_bytes=600000", "mark_threshold_bytes"),
    ("agent.gamma=1.5", "agent.gamma"),
    ("agent.epochs=0", "agent.epochs"),
    ("agent.learner=sarsa", "a3c"),
    ("env.action.levels=0", "levels"),
    ("evaluation.controllers=[ncc,dtcp]", "Did you mean 'dctcp'"),
    ("evaluation.controllers=[dctcp,dctcp]", "twice"),
    ("stack.transport=dtcp", "Did you mean 'dctcp'"),
    ("stack.order_params=[[kappa,1]]", "Unknown parameter of flow order fifo 'kappa'"),
    ("datapath.packetsim.target=nowhere:Thing", "nowhere"),
    ("seed=-1", "seed"),
    ("datapath.packetsim.target=os:getcwd", "os:getcwd"),
    ("evaluation.seeds=100000000", "evaluation.seeds"),
    ("evaluation.duration_s=1e-9", "evaluation.duration_s"),
    ("scenario.workload.websearch.load_frac=1e-6", "draws no flow"),
    ("+nonsense=1", "nonsense"),
    ("out=/proc/nowhere", "out=/proc/nowhere"),
]


@pytest.mark.parametrize(("override", "said"), TRAIN, ids=[override for override, _ in TRAIN])
def test_train_refuses(override: str, said: str, tmp_path: Path) -> None:
    key = override.split("=", maxsplit=1)[0]
    done = ncc("train", *(a for a in TINY if not a.startswith(f"{key}=")), override, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not any(tmp_path.glob("runs/*/manifest.json"))


def test_a_sweep_says_at_which_job_it_ended(tmp_path: Path) -> None:
    done = ncc("train", "-m", *TINY, "seed=-1,2", cwd=tmp_path)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert "seed must be" in first
    assert second.startswith("the sweep ends here, at ")
    assert second.endswith("seed=-1")


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"agent": 1}', "{", '{"seed": 1}'])
def test_a_damaged_configuration_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(text)
    done = ncc("train", "resume=run", cwd=tmp_path)
    assert done.returncode == 1
    assert "config.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_resuming_what_is_no_run_is_refused(tmp_path: Path) -> None:
    done = ncc("train", "resume=nowhere", cwd=tmp_path)
    assert done.returncode == 1
    assert "config.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_infinite_wait_with_too_much_load_is_refused(tmp_path: Path) -> None:
    heavy = "scenario.workload.websearch.load_frac=1.2"
    done = ncc("train", "scenario.drain_s=null", heavy, cwd=tmp_path)
    assert done.returncode == 2
    assert "tor->core" in done.stderr
    assert "load_frac" in done.stderr


EVALUATE = [
    (("controller=dtcp", "scenario=rack"), "Did you mean 'dctcp'"),
    (("controller=ncc_untrained", "scenario=rack"), "run=<folder>"),
    (("run=nowhere",), "nowhere"),
    (("scenario=rack", "scenario.workload.websearch.load_frac=80"), "if that is meant, add consent=true"),
    (("controller=dctcp", "scenario=rack", "seeds=0"), "seeds"),
    (("controller=dctcp", "scenario=rack", "datapath=[]"), "datapath names none"),
    (("controller=dctcp", "scenario=rack", "datapath=[packetsim,packetsim]"), "datapath names one twice"),
]


@pytest.mark.parametrize(("arguments", "said"), EVALUATE, ids=[" ".join(a) for a, _ in EVALUATE])
def test_evaluate_refuses(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ncc("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    # A limit on the size of any file stands in for a full disk: EFBIG comes where ENOSPC would.
    limited = (
        f"ulimit -f 8; exec {sys.executable} -m ncc.evaluate controller=dctcp scenario=rack seeds=1 workers=1 "
        + ("duration_s=0.02 out=judged")
    )
    done = subprocess.run(
        ["bash", "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert "judged" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "judged" / "manifest.json").exists()


@pytest.mark.parametrize("main", ["train", "evaluate"])
def test_help_loads_no_heavy_library(main: str, tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['ncc', '--help']\n"
        f"try: runpy.run_module('ncc.{main}', run_name='__main__')\n"
        "finally:\n"
        "  print('LOADED', [m for m in ('torch', 'ray', 'gymnasium', 'pettingzoo', 'matplotlib', 'pyarrow', 'scipy',"
        " 'ncc.envs.ns3._ns3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scenario=" in done.stdout
    assert "LOADED []" in done.stdout


@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        (
            "evaluate",
            "agent=ppo",
            "ncc evaluate has no group agent; its groups are datapath, scenario, env, exp",
        ),
        ("report", "agent=ppo", "ncc report has no group agent"),
        ("evaluate", "scenario/topology=rack", "changes a scenario, and none is chosen; choose scenario= as well"),
    ],
)
def test_a_group_of_another_verb_is_refused(main: str, arguments: str, said: str, tmp_path: Path) -> None:
    done = ncc(main, arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("main", ["evaluate", "train", "serve"])
def test_scenarios_are_listed_with_a_sentence(main: str, tmp_path: Path) -> None:
    done = ncc(main, "scenario=list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(config_paths("scenario"))
    assert "16 hosts of 1 Gbit/s behind one 4 Gbit/s uplink.\n" in done.stdout


def test_every_controller_is_listed_with_a_line(tmp_path: Path) -> None:
    done = ncc("evaluate", "controller=list", cwd=tmp_path)
    assert done.returncode == 0
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert {"ncc", "dctcp", "newreno", "fixed_share", "ns3_cubic"} <= set(lines)
    assert all(len(text) > 10 for text in lines.values())
