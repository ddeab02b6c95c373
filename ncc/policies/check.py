# SPDX-License-Identifier: BSD-3-Clause
"""A check of a policy file on random observations.

The hosts' code and onnxruntime, which compute in 32 bits, must agree with the network's definition in 64 bits.
"""

from collections.abc import Callable

import numpy as np

from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import InvalidRunError
from ncc.core.extras import install_command, is_installed
from ncc.core.flows import FloatArray
from ncc.envs.observation import HIGH, LOW
from ncc.harness.batch import ObsArray
from ncc.policies.file import PolicyFile
from ncc.policies.onnx_model import onnx_logits, onnx_model

SAMPLES = 10_000
TOLERANCE = 1e-5
"""Largest accepted error of a logit: absolute for a logit from -1 to 1, relative for any other."""


def observations(file: PolicyFile) -> ObsArray:
    """Random observations [SAMPLES, obs_dim], uniform over the range to which observations are clipped."""
    size = SAMPLES, file.header.obs_dim
    return np.random.default_rng(0).uniform(LOW, min(HIGH, file.header.observation.ceiling), size).astype(np.float32)


def defined_logits(policy: MlpPolicy, obs: ObsArray) -> FloatArray:
    """Logits [hosts, n_actions] of observations [hosts, obs_dim], by the network's definition in 64-bit floats."""
    *hidden, (weight, bias) = policy.layers
    inner = obs.astype(np.float64)
    for by, plus in hidden:
        inner = np.tanh(inner @ by.T + plus)
    logits: FloatArray = inner @ weight.T + bias
    return logits


def check_lines(file: PolicyFile, where: str) -> list[str]:
    """Check a policy and return the lines that `ncc export check` prints; one names onnxruntime if it is missing.

    Raises:
        InvalidRunError: a logit has a larger error than `TOLERANCE`.
    """
    obs, policy = observations(file), file.policy
    run_times: dict[str, Callable[[ObsArray], FloatArray32]] = {"ncc": policy.logits}
    if with_onnx := is_installed("onnx") and is_installed("onnxruntime"):
        run_times["onnxruntime"] = onnx_logits(onnx_model(policy, file.header.name))
    true = defined_logits(policy, obs)
    lines = [f"{where}: {len(obs):,} observations of {obs.shape[1]} numbers, beside their definition in 64 bits"]
    for name, logits in run_times.items():
        computed = logits(obs)
        largest = float((np.abs(computed - true) / np.maximum(1, np.abs(true))).max())
        if not largest <= TOLERANCE:
            raise InvalidRunError(
                f"{where}: {name} differs from the policy by {largest:.1e}, more than {TOLERANCE:g}; do not deploy it "
                "on this machine"
            )
        other_choices = int((computed.argmax(-1) != true.argmax(-1)).sum())
        lines.append(f"{name:12} largest difference {largest:.1e}, other choices {other_choices}")
    if not with_onnx:
        lines.append(f"onnxruntime  not compared: not installed; {install_command('export')}")
    return lines
