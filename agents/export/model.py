# SPDX-License-Identifier: BSD-3-Clause
"""A policy as an ONNX model in one piece: checked by onnx where it is written, run by whoever has onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ncc.agents.export.wire import INPUT, OUTPUT, model_bytes
from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import ResultError
from ncc.core.extras import require_extra
from ncc.harness.batch import ObsArray

TOLERANCE = 1e-5
"""Largest difference of two logits that is none."""
PROBED = 64

Logits = Callable[[ObsArray], FloatArray32]
"""Logits [hosts, n_actions] of observations [hosts, obs_dim]."""


def onnx_model(policy: MlpPolicy, name: str) -> bytes:
    """The model of `ncc.agents.export.wire.model_bytes`, after onnx has checked it.

    Raises:
        MissingExtraError: the package onnx is not installed.
    """
    require_extra("export", "exporting", "onnx")
    import onnx

    model = model_bytes(policy, name)
    onnx.checker.check_model(model, full_check=True)
    return model


def onnx_logits(model: bytes, policy: MlpPolicy, where: str) -> Logits:
    """The model in onnxruntime, on one core, after comparing it with the policy on some observations.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ResultError: it cannot run the model, or the model is of another policy.
    """
    require_extra("export", "running a policy's ONNX model", "onnxruntime")
    import onnxruntime

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
