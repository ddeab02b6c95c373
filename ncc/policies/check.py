# SPDX-License-Identifier: BSD-3-Clause
"""A check of a policy file: numpy and onnxruntime beside PyTorch, on observations that hosts really make."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import ConfigError, InvalidRunError, ResultError
from ncc.core.extras import is_installed
from ncc.core.scenario import scenario_from_dict
from ncc.core.seeding import derive_seed
from ncc.envs.action import RateTable
from ncc.envs.make import datapath_factory
from ncc.envs.observation import SharedObserver
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.limiter import PolicyLimiter
from ncc.policies.file import PolicyFile
from ncc.policies.onnx_model import onnx_logits, onnx_model

SAMPLES = 10_000
TOLERANCE = 1e-5
"""Largest difference of two logits that counts as none."""


@dataclass
class _Watched:
    """A policy that keeps the observations it is given."""

    policy: MlpPolicy
    seen: list[ObsArray] = field(default_factory=list)

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        self.seen.append(obs.copy())
        return self.policy.act(obs, rng)


def record(found: PolicyFile, samples: int = SAMPLES, seed: int = 0) -> ObsArray:
    """Observations [samples, obs_dim] of hosts while the policy decides for them, its actions drawn at random.

    They come from episodes of the training's scenario on packetsim.
    """
    header = found.header
    try:
        scenario = scenario_from_dict(header.training["scenario"])
    except (KeyError, TypeError, ConfigError) as error:
        raise ResultError(f"the policy file says no scenario to observe in ({error}); export it again") from None
    watched, network = _Watched(found.policy), datapath_factory("packetsim")()
    observer = SharedObserver(header.observation)
    limiter = PolicyLimiter(watched, observer, RateTable(header.action, header.observation), greedy=False)
    epochs = int(scenario.duration_s / scenario.period_s)
    try:
        for episode in count():
            drawn = derive_seed(seed, "export", episode)
            limiter.reset(scenario, drawn)
            measurement = network.start(scenario, scenario.flows(drawn), header.stack, drawn)
            for _ in range(epochs):
                measurement = network.step(limiter.decide(measurement))
                if len(watched.seen) * scenario.n_agents >= samples:
                    return np.concatenate(watched.seen)[:samples]
    finally:
        network.close()
    raise AssertionError("episodes do not end")


def torch_logits(policy: MlpPolicy, obs: ObsArray) -> FloatArray32:
    """Logits [hosts, n_actions] of observations [hosts, obs_dim], worked out by PyTorch."""
    import torch
    from torch.nn import functional

    inner = torch.from_numpy(np.array(obs, np.float32))
    *hidden, last = [(torch.tensor(weight), torch.tensor(bias)) for weight, bias in policy.layers]
    with torch.no_grad():
        for weight, bias in hidden:
            inner = torch.tanh(functional.linear(inner, weight, bias))
        logits: FloatArray32 = functional.linear(inner, *last).numpy()
    return logits


def check_lines(found: PolicyFile, where: str, samples: int = SAMPLES) -> list[str]:
    """Lines of `ncc export check`; packages that are not installed are left out and named."""
    obs, policy = record(found, samples), found.policy
    run_times: dict[str, Callable[[ObsArray], FloatArray32]] = {"numpy": policy.logits}
    if with_onnx := is_installed("onnx") and is_installed("onnxruntime"):
        run_times["onnxruntime"] = onnx_logits(onnx_model(policy, found.header.name))
    with_torch = is_installed("torch")
    true = torch_logits(policy, obs) if with_torch else policy.logits(obs)
    beside = "PyTorch" if with_torch else "numpy (PyTorch is not installed)"
    lines = [f"{where}: {len(obs):,} observations of {obs.shape[1]} numbers, beside {beside}"]
    for name, logits in run_times.items():
        computed = logits(obs)
        largest = float(np.abs(computed - true).max())
        if not largest <= TOLERANCE:
            raise InvalidRunError(
                f"{where}: {name} differs from the policy by {largest:.1e}, more than {TOLERANCE:g}; do not deploy it "
                "on this machine"
            )
        other_choices = int((computed.argmax(-1) != true.argmax(-1)).sum())
        lines.append(f"{name:12} largest difference {largest:.1e}, other choices {other_choices}")
    if not with_onnx:
        lines.append("onnxruntime  not compared: not installed (pip install 'ncc[export]')")
    return lines
