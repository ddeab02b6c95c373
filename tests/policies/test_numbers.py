# SPDX-License-Identifier: BSD-3-Clause
"""Logits of a policy file: those of its definition, to 1e-5, on observations at random."""

from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest

from ncc.agents.policy import Layer, MlpPolicy, packaged_policy
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import ObsArray
from ncc.policies import check
from ncc.policies.check import TOLERANCE, check_lines, defined_logits, observations
from ncc.policies.file import packed, policy_file_from
from ncc.policies.onnx_model import onnx_logits, onnx_model
from tests.policies.files import HOST_POLICIES, exported


@pytest.fixture(scope="module")
def recorded() -> ObsArray:
    return observations(policy_file_from(exported(), "x"))


@pytest.mark.parametrize("name", HOST_POLICIES)
def test_all_run_times_compute_the_same(name: str) -> None:
    first, *rest = check_lines(policy_file_from(packaged_policy(name).read_bytes(), "x"), "x")
    assert first.endswith("beside their definition in 64 bits")
    assert [line.split()[0] for line in rest] == ["ncc", "onnxruntime"]
    assert all(line.endswith("other choices 0") for line in rest)


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
    true = defined_logits(policy, recorded)
    assert np.abs(found.policy.logits(recorded) - true).max() < TOLERANCE
    assert np.abs(onnx_logits(onnx_model(policy, "x"))(recorded) - true).max() < TOLERANCE


def test_the_model_is_in_one_piece_and_says_what_it_takes() -> None:
    data = onnx_model(policy_file_from(exported(), "x").policy, "ncc")
    model = onnx.load_model_from_string(data)
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Tanh", "Gemm", "Tanh", "Gemm"]
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    (taken,), (given,) = model.graph.input, model.graph.output
    assert [(end.name, end.type.tensor_type.shape.dim[1].dim_value) for end in (taken, given)] == [
        ("observation", 25),
        ("logits", 14),
    ]
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for hosts in (1, 64):
        assert session.run(None, {"observation": np.zeros((hosts, 25), np.float32)})[0].shape == (hosts, 14)


def test_a_difference_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = policy_file_from(exported(), "x")
    monkeypatch.setattr(check, "defined_logits", lambda policy, obs: policy.logits(obs) + np.float32(1e-3))
    with pytest.raises(InvalidRunError, match=r"ncc differs from the policy by 1\.0e-03, more than 1e-05"):
        check_lines(found, "x")
