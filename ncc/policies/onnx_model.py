# SPDX-License-Identifier: BSD-3-Clause
"""A policy as an ONNX model, for run times other than numpy."""

from collections.abc import Callable

import numpy as np

from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.extras import require_extra
from ncc.harness.batch import ObsArray

OPSET, IR_VERSION = 13, 8
"""Versions of ONNX's operators and format; they are old enough for every run time."""
INPUT, OUTPUT, ROWS = "observation", "logits", "hosts"


def onnx_model(policy: MlpPolicy, name: str) -> bytes:
    """Make an ONNX model of the policy, of operators Gemm and Tanh, and check it.

    It maps `observation` [hosts, obs_dim] to `logits` [hosts, n_actions], both float32.

    Raises:
        MissingExtraError: the package onnx is not installed.
    """
    require_extra("export", "an ONNX model", "onnx")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights, inner = [], [], INPUT
    last = len(policy.layers) - 1
    for i, (weight, bias) in enumerate(policy.layers):
        weights += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        affine = OUTPUT if i == last else f"affine{i}"
        nodes.append(helper.make_node("Gemm", [inner, f"w{i}", f"b{i}"], [affine], transB=1))
        if i < last:
            inner = f"hidden{i}"
            nodes.append(helper.make_node("Tanh", [affine], [inner]))
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [ROWS, policy.obs_dim])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [ROWS, policy.n_actions])],
        weights,
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, producer_name="ncc", ir_version=IR_VERSION, opset_imports=[opset])
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def onnx_logits(model: bytes) -> Callable[[ObsArray], FloatArray32]:
    """Load a model into onnxruntime, on one core, and return a function from observations [hosts, obs_dim] to logits.

    Raises:
        MissingExtraError: onnxruntime is not installed.
    """
    require_extra("export", "running an ONNX model", "onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def logits(obs: ObsArray) -> FloatArray32:
        outputs: FloatArray32 = session.run([OUTPUT], {INPUT: np.ascontiguousarray(obs, np.float32)})[0]
        return outputs

    return logits
