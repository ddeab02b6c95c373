# SPDX-License-Identifier: BSD-3-Clause
"""A policy as an ONNX model in one piece: written without any training framework, run by whoever has onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import ConfigError, ResultError
from ncc.harness.batch import ObsArray

OPSET, IR_VERSION = 13, 8
"""Of ONNX; old ones, that every run time reads."""
TOLERANCE = 1e-5
"""Largest difference of two logits that is none."""
PROBED = 64
INPUT, OUTPUT, ROWS = "observation", "logits", "hosts"

Logits = Callable[[ObsArray], FloatArray32]
"""Logits [hosts, n_actions] of observations [hosts, obs_dim]."""


def onnx_model(policy: MlpPolicy, name: str) -> bytes:
    """A model of `Gemm` and `Tanh`: float32 `observation` [hosts, obs_dim] to `logits` [hosts, n_actions].

    Equal policies give equal bytes.

    Raises:
        ConfigError: the package onnx is not installed.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError:
        raise ConfigError(
            'exporting needs the package onnx, which is not installed: pip install "ncc[export]"'
        ) from None
    nodes, weights, inner = [], [], INPUT
    last = len(policy.layers) - 1
    for i, (weight, bias) in enumerate(policy.layers):
        for part, array in (("w", weight), ("b", bias)):
            raw = array.astype("<f4").tobytes()
            weights.append(helper.make_tensor(f"{part}{i}", TensorProto.FLOAT, array.shape, raw, raw=True))
        affine = OUTPUT if i == last else f"affine{i}"
        nodes.append(helper.make_node("Gemm", [inner, f"w{i}", f"b{i}"], [affine], name=affine, transB=1))
        if i < last:
            inner = f"hidden{i}"
            nodes.append(helper.make_node("Tanh", [affine], [inner], name=inner))
    ends = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, [ROWS, size])
        for end, size in ((INPUT, policy.obs_dim), (OUTPUT, policy.n_actions))
    ]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], initializer=weights)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="ncc")
    onnx.checker.check_model(model, full_check=True)
    written: bytes = model.SerializeToString(deterministic=True)
    return written


def holds_weights(model: bytes, policy: MlpPolicy) -> bool:
    """Whether the model's tensors are the policy's weights, by their bytes and in their order; takes no onnx."""
    at = 0
    for array in (array for layer in policy.layers for array in layer):
        raw = array.astype("<f4").tobytes()
        at = model.find(raw, at) + len(raw)
        if at < len(raw):
            return False
    return True


def onnx_logits(model: bytes, policy: MlpPolicy, where: str) -> Logits:
    """The model in onnxruntime, on one core, after comparing it with the policy on some observations.

    Raises:
        ConfigError: onnxruntime is not installed.
        ResultError: it cannot run the model, or the model is of another policy.
    """
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError('this needs onnxruntime, which is not installed: pip install "ncc[deploy]"') from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        ends = [end.name for end in (*session.get_inputs(), *session.get_outputs())]
    except Exception as error:  # noqa: BLE001 - its errors have no base class of their own
        raise ResultError(
            f"{where}: onnxruntime cannot run its model ({_first_line(error)}); export it again"
        ) from None
    if ends != [INPUT, OUTPUT]:
        raise ResultError(f"{where}: its model must map {INPUT} to {OUTPUT}, found {', '.join(ends)}; export it again")

    def logits(obs: ObsArray) -> FloatArray32:
        found: FloatArray32 = session.run([OUTPUT], {INPUT: np.ascontiguousarray(obs, np.float32)})[0]
        return found

    probe = np.random.default_rng(0).uniform(-1, 1, (PROBED, policy.obs_dim)).astype(np.float32)
    try:
        agree = np.allclose(logits(probe), policy.logits(probe), rtol=TOLERANCE, atol=TOLERANCE)
    except Exception as error:  # noqa: BLE001 - as above, and of other shapes
        raise ResultError(
            f"{where}: its model takes other observations ({_first_line(error)}); export it again"
        ) from None
    if not agree:
        raise ResultError(
            f"{where} contradicts itself: its model works out other logits than its weights; export it again"
        )
    return logits


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
