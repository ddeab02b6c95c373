# SPDX-License-Identifier: BSD-3-Clause
"""What a policy file works out is what PyTorch does, to 1e-5, on observations that hosts really make."""

from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from ncc.agents.export.container import SUMS, pack, sums_of, unpack
from ncc.agents.export.model import TOLERANCE, onnx_logits, onnx_model
from ncc.agents.policy import FloatArray32, Layer, MlpPolicy
from ncc.core.errors import InvalidRunError, ResultError
from ncc.deployed.file import packed, policy_file_from
from ncc.export import check
from ncc.export.check import compare, record
from ncc.harness.batch import ObsArray
from tests.export.files import exported, with_header

SAMPLES = 10_000


@pytest.fixture(scope="module")
def recorded() -> ObsArray:
    return record(policy_file_from(exported(), "x"), SAMPLES)


def network(policy: MlpPolicy) -> nn.Sequential:
    """As a training framework has it."""
    modules: list[nn.Module] = []
    for weight, bias in policy.layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = torch.tensor(weight), torch.tensor(bias)
        modules += [linear, nn.Tanh()]
    return nn.Sequential(*modules[:-1])


def by_torch(policy: MlpPolicy, obs: ObsArray) -> FloatArray32:
    with torch.no_grad():
        found: FloatArray32 = network(policy)(torch.tensor(obs)).numpy()
    return found


def test_recorded_observations_are_many_different_ones(recorded: ObsArray) -> None:
    assert recorded.shape == (SAMPLES, 25)
    assert recorded.dtype == np.float32
    assert len(np.unique(recorded, axis=0)) > SAMPLES / 4
    again = record(policy_file_from(exported(), "x"), 1000)
    assert np.array_equal(again, recorded[:1000])


@pytest.mark.parametrize("name", ["ncc", "ncc_levels", "ncc_alone"])
def test_all_run_times_work_out_the_same(name: str, recorded: ObsArray) -> None:
    found = policy_file_from(exported(name), "x")
    obs = recorded if name != "ncc_alone" else record(found, SAMPLES)
    true = by_torch(found.policy, obs)
    session = onnxruntime.InferenceSession(found.model, providers=["CPUExecutionProvider"])
    (onnx_said,) = session.run(None, {"observation": obs})
    assert len(obs) == SAMPLES
    assert np.abs(found.policy.logits(obs) - true).max() < TOLERANCE
    assert np.abs(onnx_said - true).max() < TOLERANCE
    assert np.array_equal(onnx_said.argmax(-1), true.argmax(-1))
    assert {one.name for one in compare(found, obs, "x")} == {"numpy", "onnxruntime"}


def random_layers(*sizes: int) -> list[Layer]:
    rng = np.random.default_rng(3)
    return [
        (rng.normal(size=(out, inputs), scale=0.25).astype(np.float32), rng.normal(size=out).astype(np.float32))
        for inputs, out in pairwise(sizes)
    ]


@pytest.mark.parametrize("sizes", [(25, 14), (25, 8, 14), (25, 200, 100, 50, 14)])
def test_policies_of_any_depth(sizes: tuple[int, ...], recorded: ObsArray) -> None:
    policy = MlpPolicy(random_layers(*sizes))
    layers = tuple(weight.shape for weight, _ in policy.layers)
    found = policy_file_from(packed(policy_file_from(exported(), "x").header.replace(layers=layers), policy), "x")
    true = by_torch(policy, recorded)
    assert np.abs(found.policy.logits(recorded) - true).max() < TOLERANCE
    assert np.abs(onnx_logits(found.model, policy, "x")(recorded) - true).max() < TOLERANCE


def test_the_model_is_in_one_piece_and_says_what_it_takes() -> None:
    found = policy_file_from(exported(), "x")
    model = onnx.load_model_from_string(found.model)
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString(deterministic=True) == found.model, "as onnx itself writes it"
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Tanh", "Gemm", "Tanh", "Gemm"]
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    (taken,), (given,) = model.graph.input, model.graph.output
    assert [(end.name, end.type.tensor_type.shape.dim[1].dim_value) for end in (taken, given)] == [
        ("observation", 25),
        ("logits", 14),
    ]
    session = onnxruntime.InferenceSession(found.model, providers=["CPUExecutionProvider"])
    for hosts in (1, 64):
        assert session.run(None, {"observation": np.zeros((hosts, 25), np.float32)})[0].shape == (hosts, 14)


def test_a_model_of_another_policy_is_refused() -> None:
    found = policy_file_from(exported(), "x")
    other = MlpPolicy(random_layers(25, 64, 64, 14))
    for model, reason in (
        (onnx_model(other, "ncc"), "contradicts itself: its model works out other logits"),
        (onnx_model(MlpPolicy(random_layers(24, 14)), "ncc"), "takes other observations"),
        (onnx_model(MlpPolicy(random_layers(25, 13)), "ncc"), "works out other logits|takes other observations"),
        (found.model[:-20], "onnxruntime cannot run its model"),
        (b"", "onnxruntime cannot run its model"),
    ):
        with pytest.raises(ResultError, match=f"^x.*({reason})"):
            onnx_logits(model, found.policy, "x")
    relu = onnx.load_model_from_string(found.model)
    relu.graph.node[1].op_type = "Relu"
    parts = unpack(exported(), "x") | {"model.onnx": relu.SerializeToString()}
    del parts[SUMS]
    with pytest.raises(ResultError, match=r"^x contradicts itself: model.onnx is not the model"):
        policy_file_from(pack({**parts, SUMS: sums_of(parts)}), "x")
    with pytest.raises(ResultError, match="its model works out other logits"):
        onnx_logits(parts["model.onnx"], found.policy, "x")


def test_a_difference_is_an_error(monkeypatch: pytest.MonkeyPatch, recorded: ObsArray) -> None:
    found = policy_file_from(exported(), "x")
    monkeypatch.setattr(check, "torch_logits", lambda policy, obs: policy.logits(obs) + np.float32(1e-3))
    with pytest.raises(InvalidRunError, match=r"numpy differs from the policy by 1\.0e-03, more than 1e-05"):
        compare(found, recorded, "x")


def test_without_a_scenario_nothing_is_recorded() -> None:
    for training in ({}, {"scenario": None}, {"scenario": {"name": "x"}}):
        found = policy_file_from(with_header(lambda plain, t=training: plain.update(training=t)), "x")  # type: ignore[misc]
        with pytest.raises(ResultError, match="says no scenario to observe in"):
            record(found, 10)
