# SPDX-License-Identifier: BSD-3-Clause
"""A policy file's outputs, as numpy, onnxruntime and PyTorch work them out, on observations that hosts really make."""

from dataclasses import dataclass, field
from itertools import count

import numpy as np

from ncc.agents.export.model import TOLERANCE, Logits, onnx_logits
from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import ConfigError, InvalidRunError, ResultError
from ncc.core.extras import is_installed
from ncc.core.scenario import scenario_from_dict
from ncc.core.seeding import derive_seed
from ncc.deployed.file import PolicyFile
from ncc.envs.action import RateTable
from ncc.envs.make import datapath_factory
from ncc.envs.observation import SharedObserver
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.limiter import PolicyLimiter

SAMPLES = 10_000


@dataclass
class _Watched:
    """A policy that keeps what it is shown."""

    policy: MlpPolicy
    seen: list[ObsArray] = field(default_factory=list)

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        self.seen.append(obs.copy())
        return self.policy.act(obs, rng)


@dataclass(frozen=True)
class Agreement:
    """How far a run time is from PyTorch, or from numpy where there is no PyTorch."""

    name: str
    largest: float
    """Difference of two logits."""
    other_choices: int
    """Observations for which another action is the likeliest."""


def record(found: PolicyFile, samples: int = SAMPLES, seed: int = 0, datapath: str = "packetsim") -> ObsArray:
    """[samples, obs_dim] what hosts observe while the policy decides for them, its actions drawn rather than likeliest.

    In the training's scenario, episode after episode.

    Raises:
        ResultError: the file's scenario is none of this version of ncc.
    """
    header = found.header
    try:
        scenario = scenario_from_dict(header.training["scenario"])
    except (KeyError, TypeError, ConfigError) as error:
        raise ResultError(f"the policy file says no scenario to observe in ({error}); export it again") from None
    watched, network = _Watched(found.policy), datapath_factory(datapath)()
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


def compare(found: PolicyFile, obs: ObsArray, where: str) -> list[Agreement]:
    """Numpy and onnxruntime beside PyTorch, of which either may not be installed.

    Raises:
        InvalidRunError: two of them differ by more than `TOLERANCE`.
        ResultError: onnxruntime cannot run the model.
    """
    run_times: dict[str, Logits] = {"numpy": found.policy.logits}
    if is_installed("onnxruntime"):
        run_times["onnxruntime"] = onnx_logits(found.model, found.policy, where)
    true = torch_logits(found.policy, obs) if is_installed("torch") else found.policy.logits(obs)
    agreements = []
    for name, logits in run_times.items():
        worked_out = logits(obs)
        largest = float(np.abs(worked_out - true).max())
        agreements.append(Agreement(name, largest, int((worked_out.argmax(-1) != true.argmax(-1)).sum())))
    if worst := [one for one in agreements if not one.largest <= TOLERANCE]:
        raise InvalidRunError(
            f"{where}: {worst[0].name} differs from the policy by {worst[0].largest:.1e}, more than {TOLERANCE:g}; do "
            "not deploy it on this machine"
        )
    return agreements


def torch_logits(policy: MlpPolicy, obs: ObsArray) -> FloatArray32:
    """The policy in PyTorch: [hosts, n_actions] logits of [hosts, obs_dim] observations."""
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
    """What `ncc export check` says."""
    obs = record(found, samples)
    beside = "PyTorch" if is_installed("torch") else "numpy (PyTorch is not installed)"
    lines = [f"{where}: {len(obs):,} observations of {obs.shape[1]} numbers, beside {beside}"]
    lines += [
        f"{one.name:12} largest difference {one.largest:.1e}, other choices {one.other_choices}"
        for one in compare(found, obs, where)
    ]
    if not is_installed("onnxruntime"):
        lines.append("onnxruntime  not compared: not installed (pip install 'ncc[export]')")
    return lines
