# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy, which evaluation and hosts run without any training framework."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.agents.arrays import read_arrays, write_arrays
from ncc.core.errors import ConfigError, ResultError
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.native.network import Network, network

FloatArray32 = npt.NDArray[np.float32]
Layer = tuple[FloatArray32, FloatArray32]
"""Weights [outputs, inputs] and bias [outputs] of one affine layer."""

POLICY_FILE = "policy.npz"
"""The trained policy in a run folder."""
UNTRAINED_FILE = "policy_untrained.npz"
"""The policy in a run folder before any training."""

KIND = "ncc-policy"
VERSION = 1
_RESERVED = ("kind", "version", "obs_dim", "n_actions", "activation")


class MlpPolicy:
    """A network that maps an observation through tanh layers to one logit per action, in float32 throughout.

    Args:
        layers: hidden layers in order, then the output layer (no tanh after it).

    Raises:
        ConfigError: no layers, sizes that do not chain, or weights that are not finite.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers: tuple[Layer, ...] = tuple(
            (np.ascontiguousarray(weight, np.float32), np.ascontiguousarray(bias, np.float32))
            for weight, bias in layers
        )
        _check(self.layers)
        self.obs_dim = int(self.layers[0][0].shape[1])
        self.n_actions = int(self.layers[-1][0].shape[0])
        self._made: Network | None = None

    def logits(self, obs: ObsArray) -> FloatArray32:
        """Logits [..., n_actions] of observations [..., obs_dim]."""
        return self._network().look(self._rows(obs)).reshape(*obs.shape[:-1], self.n_actions)

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        """Action indices [...] for observations [..., obs_dim]: the most likely without `rng`, else drawn with it.

        Raises:
            ConfigError: wrong shape, or an observation that is not finite.
        """
        if rng is None:
            logits = self.logits(obs)
            finite, actions = bool(np.isfinite(logits).all()), self.chosen(logits)
        else:
            rows = self._rows(obs)
            actions = np.empty(len(rows), np.int64)
            finite = self._network().act(rows, rng.random(len(rows)), actions)
            self._network().begin()
            actions = actions.reshape(obs.shape[:-1])
        if not finite:
            raise ConfigError("observations must be finite numbers, got NaN or infinity; check what measured them")
        return actions

    def chosen(self, logits: FloatArray32) -> ActionArray:
        """The likeliest action index [...] by logits [..., n_actions]."""
        likeliest: ActionArray = np.argmax(logits, axis=-1)
        return likeliest

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def _network(self) -> Network:
        """Return the network in C++, made when it is first needed."""
        if self._made is None:
            self._made = network([self.obs_dim, *(len(bias) for _, bias in self.layers)])
            self._made.load(np.concatenate([part.ravel() for layer in self.layers for part in layer]))
        return self._made

    def _rows(self, obs: ObsArray) -> ObsArray:
        if obs.shape[-1:] != (self.obs_dim,):
            raise ConfigError(
                f"this policy reads observations of shape [..., {self.obs_dim}], got {list(obs.shape)}; "
                "observe as in the run that trained it"
            )
        return np.ascontiguousarray(obs.reshape(-1, self.obs_dim), np.float32)


class NumberPolicy(MlpPolicy):
    """A network with one output u, which means the number tanh(u) in [-1, 1], and not the odds of an action."""

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        """Return numbers [...] in [-1, 1] for observations [..., obs_dim].

        Raises:
            ConfigError: wrong shape, an observation that is not finite, or `rng`: there are no odds to draw from.
        """
        if rng is not None:
            raise ConfigError("this policy decides on a number and has no odds to draw actions by: set greedy to true")
        return super().act(obs, None)

    def chosen(self, logits: FloatArray32) -> ActionArray:
        """The number [...] in [-1, 1] that an output u [..., 1] means."""
        numbers: Any = np.tanh(logits[..., 0])
        return numbers  # type: ignore[no-any-return] # of float32: what `ncc.envs.action.RateScale` takes


def save_policy(path: Path, layers: Sequence[Layer], meta: Mapping[str, Any]) -> None:
    """Write a policy file (`.npz`) in one step, replacing an existing one.

    Args:
        path: path of the file.
        layers: as in `MlpPolicy`.
        meta: JSON values, such as how observations and actions are made; `load_policy` returns them.

    Raises:
        ConfigError: layers or meta that cannot be a policy file.
        ResultError: the file system refused.
    """
    policy = MlpPolicy(layers)
    taken = [key for key in _RESERVED if key in meta]
    if taken:
        raise ConfigError(f"meta of {path} may not use the keys {', '.join(taken)}; choose other names")
    arrays = {
        f"{part}{i}": array for i, layer in enumerate(policy.layers) for part, array in zip("wb", layer, strict=True)
    }
    shape = {"obs_dim": policy.obs_dim, "n_actions": policy.n_actions, "activation": "tanh"}
    write_arrays(path, KIND, VERSION, arrays, {**meta, **shape})


def load_policy(path: Path) -> tuple[MlpPolicy, dict[str, Any]]:
    """Read a file that `save_policy` wrote; return the policy and its `meta`.

    Raises:
        ResultError: missing, damaged, of another kind or version, or contradicting itself.
    """
    arrays, meta = read_arrays(path, KIND, VERSION)
    count = len(arrays) // 2
    if set(arrays) != {f"{part}{i}" for i in range(count) for part in "wb"} or meta.get("activation") != "tanh":
        raise ResultError(
            f"{path} must hold weights w0.. and biases b0.. of tanh layers, got {sorted(arrays)}; make it again"
        )
    try:
        policy = MlpPolicy([(arrays[f"w{i}"], arrays[f"b{i}"]) for i in range(count)])
    except (ConfigError, TypeError, ValueError) as error:
        raise ResultError(f"{path} does not hold a usable policy: {error}") from None
    stated, found = (meta.get("obs_dim"), meta.get("n_actions")), (policy.obs_dim, policy.n_actions)
    if stated != found:
        raise ResultError(f"{path} states (obs_dim, n_actions) = {stated}, but its weights have {found}; make it again")
    return policy, {key: value for key, value in meta.items() if key not in _RESERVED}


def _check(layers: tuple[Layer, ...]) -> None:
    if not layers:
        raise ConfigError("a policy needs at least one layer of weights")
    for i, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or 0 in weight.shape:
            raise ConfigError(
                f"layer {i} must have weights [outputs, inputs] and bias [outputs], got {weight.shape} and {bias.shape}"
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ConfigError(f"layer {i} has weights that are not finite; the training that made it diverged")
    for i, ((left, _), (right, _)) in enumerate(pairwise(layers)):
        if right.shape[1] != left.shape[0]:
            raise ConfigError(f"layer {i} has {left.shape[0]} outputs, but layer {i + 1} takes {right.shape[1]} inputs")
