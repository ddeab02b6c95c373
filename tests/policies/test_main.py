# SPDX-License-Identifier: BSD-3-Clause
"""``ncc export``, as a user meets it."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import load_policy, packaged_policy, save_policy
from ncc.core.errors import ConfigError, NccError, ResultError, UnknownNameError
from ncc.envs.observation import entry_names
from ncc.export import look, main
from ncc.harness.controller import PolicyLimit
from ncc.harness.manifest import provenance, read_manifest, seal
from ncc.policies import load_policy_file
from ncc.policies.export import ExportSpec, export
from ncc.policies.onnx_model import onnx_logits
from ncc.results.evaluation import run_controllers
from ncc.run.compose import composed, load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import EvaluationSpec, TrainPlan, planned
from tests.mains.commands import ncc
from tests.policies.files import exported
from tests.support.experiments import small_rack
from tests.support.here import Here
from tests.support.policies import write_policy
from tests.support.tables import table


def finished_run(folder: Path) -> Path:
    """A run folder as `ncc.train` leaves it, as far as an export looks at it."""
    kept = TrainPlan.from_plain(planned(composed("train", ["seed=7"])))
    kept.save(folder)
    for i, name in enumerate(("policy.ncc", "policy_untrained.ncc")):
        write_policy(folder / name, kept.scenario, action=i)
    made = {**provenance(), "command": "ncc train out=mine seed=7"}
    seal(folder, "training", {"seed": 7, "valid": True}, ["config.json", "policy.ncc", "policy_untrained.ncc"], made)
    return folder


def test_a_run_is_exported_with_all_that_made_it(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    done = ncc("export", f"run={run}", "out=out/policy.ncc", "fallback=cubic", "limits.rise_ratio=2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = load_policy_file(tmp_path / "out" / "policy.ncc")
    assert f"--digest sha256:{found.sha256}\n" in done.stdout
    header, (policy, meta) = found.header, load_policy(run / "policy.ncc")
    assert found.policy.layers[0][0].tobytes() == policy.layers[0][0].tobytes()
    assert json.loads(header.observation.to_json()) == meta["observation"]
    assert (header.origin.source, header.origin.seed) == ("run", 7)
    assert header.origin.recipe == {"seed": 7}
    made = read_manifest(run, "training").provenance
    assert header.origin.provenance == {**made, "command": "ncc train seed=7"}, "no folder of one machine"
    assert header.origin.facts == {"policy": "policy.ncc", **read_manifest(run, "training").facts}
    assert (header.fallback.name, header.limits.rise_ratio, header.limits.fall_ratio) == ("cubic", 2.0, None)
    assert header.neighbours == 15
    other = export(ExportSpec(run=str(run), file="policy_untrained.ncc", out=str(tmp_path / "other.ncc"), name="mine"))
    assert load_policy_file(other).header.name == "mine"
    assert load_policy_file(other).header.origin.facts["policy"] == "policy_untrained.ncc"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["policy.ncc"], "nothing half-written stays"


def test_an_onnx_model_is_written_beside_the_file_if_asked_for(tmp_path: Path) -> None:
    done = ncc("export", "policy=ncc", "onnx=policy.onnx", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "policy.onnx, the same policy for ONNX run times" in done.stdout
    assert (tmp_path / "policy.ncc").read_bytes() == packaged_policy("ncc").read_bytes()
    policy = load_policy_file(tmp_path / "policy.ncc").policy
    obs = np.random.default_rng(1).uniform(-1, 1, (64, policy.obs_dim)).astype(np.float32)
    logits = onnx_logits((tmp_path / "policy.onnx").read_bytes())
    np.testing.assert_allclose(logits(obs), policy.logits(obs), atol=1e-5)


def test_exports_that_cannot_be_are_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = finished_run(tmp_path / "run")
    (tmp_path / "folder.ncc").mkdir()
    (tmp_path / "there.ncc").write_bytes(b"mine")
    before = sorted(tmp_path.rglob("*"))
    for arguments, said in table(__file__, "refused.yaml"):
        plain = composed("export", [argument.format(run=run) for argument in arguments])
        with pytest.raises(NccError) as refused:
            main(plain, [])
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
        assert sorted(tmp_path.rglob("*")) == before, "nothing half-written"
    assert (tmp_path / "there.ncc").read_bytes() == b"mine"


def test_a_file_is_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "policy.ncc"
    out.write_bytes(b"mine")
    export(ExportSpec(policy="ncc", out=str(out), overwrite=True))
    assert out.read_bytes() == packaged_policy("ncc").read_bytes()


def test_runs_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    spec = ExportSpec(run=str(tmp_path / "run"), out=str(tmp_path / "policy.ncc"))
    run = finished_run(tmp_path / "run")
    files = list(read_manifest(run, "training").files)
    policy, config = run / "policy.ncc", run / "config.json"
    whole, said = policy.read_bytes(), config.read_bytes()

    def refused(match: str) -> None:
        with pytest.raises((ResultError, UnknownNameError), match=match):
            export(spec)
        assert not (tmp_path / "policy.ncc").exists()

    policy.unlink()
    refused("policy.ncc is missing though the manifest lists it")
    policy.write_bytes(whole[:-1])
    refused("changed or cut")
    policy.write_bytes(whole)
    config.unlink()
    refused("config.json is missing")
    config.write_bytes(said)
    seal(run, "training", {"seed": 7, "valid": False}, files)
    refused("judged by runs that must not be used")
    seal(run, "evaluation", {"seed": 7, "valid": True}, files)
    refused("holds a result of kind 'evaluation'")
    seal(run, "training", {"seed": 7, "valid": True}, ["config.json"])
    refused(r"Unknown policy of .* 'policy.ncc'; known: \(none\)")
    _, meta = load_policy(policy)
    changes: list[tuple[dict[str, object], str]] = [
        (
            {"observation": {"neighbours": "pooled"}},
            "for other observations or actions than it says.* take 53 .* makes 16",
        ),
        ({"action": {"levels": 3}}, "to 11 actions, what it says of itself makes 53 and 4"),
        ({"action": {"kind": "log"}}, "makes 53 and 1"),
        ({"scenario": None}, "does not say its scenario; train again"),
        ({"stack": {"transprot": "dctcp"}}, "no policy of this version of ncc"),
    ]
    for change, said_of_it in changes:
        weights = [(np.zeros((11, 53), np.float32), np.zeros(11, np.float32))]
        save_policy(policy, weights, {**meta, **change})
        seal(run, "training", {"seed": 7, "valid": True}, files)
        refused(said_of_it)


def test_inspect_says_what_a_file_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.ncc"
    spec = ExportSpec(policy="ncc", out=str(path), period_s=1e-3, limits={"fall_ratio": 2, "max_rate_frac": 1})
    found = load_policy_file(export(spec))
    assert look(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"{path}: checked in full"
    for line in (
        f"sha256: {found.sha256}\n",
        "weights: 1033\nformat: 5\nname: ncc\n",
        "  neighbours: ordered\n  ages: true\n  rtt_scale: 20.0\n",
        "  formula: local_hold\n",
        "period_s: 0.001\n",
        "  hosts: [2, 32]\n",
        "limits: {min_rate_frac: 0.0001, max_rate_frac: 1.0, rise_ratio: null, fall_ratio: 2.0}\n",
        "  order: srpt\n",
        "  source: ncc\n",
        "scenario: incast\n",
        "families: [",
    ):
        assert line in out
    for name in entry_names(found.header.observation, found.header.obs_dim):
        assert name in " ".join(out.split())


def test_a_reader_may_leave_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "policy.ncc").write_bytes(exported())
    command = f"{shlex.quote(sys.executable)} -m ncc export inspect policy.ncc | true"
    done = subprocess.run(command, check=False, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_inspect_and_check_refuse_what_reading_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.ncc"
    bad.write_bytes(exported()[:-1])
    for verb in ("inspect", "check"):
        for path, said in ((bad, "is no policy file"), (tmp_path / "none.ncc", "there is no policy file")):
            assert look([verb, str(path)]) == 1
            shown = capsys.readouterr()
            assert shown.out == ""
            assert said in shown.err
            assert len(shown.err.splitlines()) == 1
    assert look(["inspect"]) == 2
    assert capsys.readouterr().err == (
        "error: the following arguments are required: file; see ncc export inspect --help\n"
    )


def test_a_policy_file_is_evaluated_as_the_policy_that_was_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.ncc").write_bytes(packaged_policy("ncc").read_bytes())
    export(ExportSpec(policy="ncc", out="slow.ncc", limits={"max_rate_frac": 0.02}))
    factory = LimiterFactory(None)
    names = ["ncc", "policy.ncc", "slow.ncc"]
    both_ends, *controllers = (factory.resolved(load_controller(name)) for name in names)
    controllers = [both_ends.replace(receivers=None, stack=controllers[0].stack), *controllers]
    assert both_ends.stack == controllers[0].stack.replace(hold=True, answer_frac=0.6)
    done = run_controllers(
        small_rack(duration_s=0.02, drain_s=5.0),
        controllers,
        [1],
        load_datapath("packetsim"),
        factory,
        called="evaluating",
        folder=tmp_path / "runs",
        executor=Here(),
        config={},
    )
    ncc_too, file, held = (done.summaries()[name][1] for name in names)
    np.testing.assert_equal(ncc_too, file)  # in every metric; those of no flow are NaN in both
    assert held["fct_mean_s"] > 5 * file["fct_mean_s"], "at most 2 % of the link"


def test_a_policy_file_is_named_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("policy.ncc", "runs/policy.ncc", "runs/two words.ncc", "runs/.hidden.ncc"):
        (tmp_path / name).write_bytes(exported())
    for given in ("policy.ncc", "./policy.ncc", "runs/policy.ncc", f"{tmp_path}/runs/policy.ncc"):
        for before in ("", "hosts:"):
            found = load_controller(before + given)
            assert isinstance(found.limit, PolicyLimit)
            assert (found.name, Path(found.limit.path)) == (f"{before}policy.ncc", (tmp_path / given).resolve())
    for given in ("runs/two words.ncc", "runs/.hidden.ncc"):
        with pytest.raises(ConfigError, match=r"results go by a file's name, which must be .*; call '"):
            load_controller(given)
    with pytest.raises(UnknownNameError, match="Unknown controller 'runs/policy'"):
        load_controller("runs/policy")
    same = EvaluationSpec(controllers=("runs/policy.ncc", "./policy.ncc"), datapaths=("ns3",), seeds=1, duration_s=1.0)
    with pytest.raises(ConfigError, match=r"would call runs/policy.ncc and ./policy.ncc all 'policy.ncc': leave"):
        same.load()
    done = ncc("evaluate", "controller=[runs/policy.ncc,none/other.ncc]", "scenario=rack", "seeds=1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        f"error: controller 'other.ncc': there is no policy file {tmp_path.resolve()}/none/other.ncc; "
        "make it with ncc train or ncc export\n",
    )


def test_a_policy_file_for_other_networks_is_refused_by_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = finished_run(tmp_path / "run")
    export(ExportSpec(run=str(run), out="each.ncc"))
    controller = load_controller("each.ncc")
    assert isinstance(controller.limit, PolicyLimit)
    with pytest.raises(ConfigError, match="was trained on 53 numbers per host and scenario 'small_rack' gives"):
        LimiterFactory(None)(controller, small_rack())
