# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy and its file (`.ncc`), which evaluations and hosts read without any training framework.

The file is a safetensors file of the weights, with a header as JSON in its metadata (`ncc.agents.arrays`).
"""

import stat
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.agents.arrays import REMEDY, Arrays, one_line, packed_arrays, unpacked_arrays
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.harness.atomic import write_bytes
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.native.network import Network, network

FloatArray32 = npt.NDArray[np.float32]
Layer = tuple[FloatArray32, FloatArray32]
"""Weights [outputs, inputs] and bias [outputs] of one affine layer."""

SUFFIX = ".ncc"
POLICY_FILE = "policy.ncc"
"""The trained policy in a run folder."""
UNTRAINED_FILE = "policy_untrained.ncc"
"""The policy in a run folder before any training."""
PACKAGED = Path(__file__).resolve().parent / "pretrained"
"""Folder of the policies that come with the package."""

KIND = "policy file"
"""Key of the safetensors metadata that holds the header."""
FORMAT = 5
"""Version of the format, raised whenever readers of another version would misread a file."""
MAX_BYTES = 10_000_000
"""Size limit of a policy file."""
_RESERVED = ("format", "layers", "activation", "sha256")


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
        self._built: Network | None = None

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
        return {**self.__dict__, "_built": None}

    def _network(self) -> Network:
        """Return the network in C++, built when it is first needed."""
        if self._built is None:
            self._built = network([self.obs_dim, *(len(bias) for _, bias in self.layers)])
            self._built.load(np.concatenate([part.ravel() for layer in self.layers for part in layer]))
        return self._built

    def _rows(self, obs: ObsArray) -> ObsArray:
        if obs.shape[-1:] != (self.obs_dim,):
            raise ConfigError(
                f"this policy reads observations of shape [..., {self.obs_dim}], got {list(obs.shape)}; "
                "observe as in the run that trained it"
            )
        return np.ascontiguousarray(obs.reshape(-1, self.obs_dim), np.float32)


class NumberPolicy(MlpPolicy):
    """A network with one output u, whose action is the number tanh(u) in [-1, 1]."""

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        """Return numbers [...] in [-1, 1] for observations [..., obs_dim].

        Raises:
            ConfigError: wrong shape, an observation that is not finite, or `rng`: there are no odds to draw from.
        """
        if rng is not None:
            raise ConfigError("this policy decides on a number and has no odds to draw actions by: set greedy to true")
        return super().act(obs, None)

    def chosen(self, logits: FloatArray32) -> ActionArray:
        """The action [...] in [-1, 1] for an output u [..., 1]."""
        numbers: Any = np.tanh(logits[..., 0])
        return numbers  # type: ignore[no-any-return] # of float32: what `ncc.envs.action.RateScale` takes


def save_policy(path: Path, layers: Sequence[Layer], meta: Mapping[str, Any]) -> None:
    """Write a policy file in one step, replacing an existing one.

    Args:
        path: path of the file.
        layers: as in `MlpPolicy`.
        meta: JSON values, such as the specs of observations and actions; `load_policy` returns them.

    Raises:
        ConfigError: `layers` or `meta` cannot be in a policy file.
        ResultError: the file system refused.
    """
    if taken := [key for key in _RESERVED if key in meta]:
        raise ConfigError(f"meta of {path} may not use the keys {', '.join(taken)}; choose other names")
    write_bytes(path, policy_bytes(MlpPolicy(layers), meta))


def load_policy(path: Path) -> tuple[MlpPolicy, dict[str, Any]]:
    """Read a policy file; return the policy and the `meta` of `save_policy`.

    Raises:
        ResultError: the file is missing, damaged, of another format, or contradicts itself.
    """
    policy, header = unpacked(read_bytes(path), str(path))
    return policy, {key: value for key, value in header.items() if key not in _RESERVED}


def packaged_names(folder: Path = PACKAGED) -> tuple[str, ...]:
    """Names of the policies in `folder`."""
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}")))


def packaged_policy(name: str, folder: Path = PACKAGED) -> Path:
    """Path of the policy file of that name; `UnknownNameError` if there is none."""
    if name not in (names := packaged_names(folder)):
        raise UnknownNameError("packaged policy", name, names)
    return folder / f"{name}{SUFFIX}"


def policy_bytes(policy: MlpPolicy, meta: Mapping[str, Any]) -> bytes:
    """Make the bytes of a policy file; equal policies and metas give equal bytes.

    Raises:
        ConfigError: `meta` is not JSON, or the file would be too large.
    """
    layers = [weight.shape for weight, _ in policy.layers]
    tensors = {
        f"{part}{i}": array for i, layer in enumerate(policy.layers) for part, array in zip("wb", layer, strict=True)
    }
    data = packed_arrays(KIND, {"format": FORMAT, "layers": layers, "activation": "tanh", **meta}, tensors)
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"a policy file may have {MAX_BYTES} bytes and this would have {len(data)}: train a smaller policy"
        )
    return data


def unpacked(data: bytes, where: str) -> tuple[MlpPolicy, dict[str, Any]]:
    """Read the bytes of a policy file and return the policy and the plain header; errors call the file `where`.

    Raises:
        ResultError: the bytes are too many, damaged, of another format, or contradict each other.
    """
    if len(data) > MAX_BYTES:
        raise ResultError(f"{where} has more than the {MAX_BYTES} bytes that a policy file may have; name another file")
    header, arrays = unpacked_arrays(data, KIND, FORMAT, where)
    return _policy(arrays, header, where), header


def _policy(tensors: Arrays, header: Mapping[str, Any], where: str) -> MlpPolicy:
    count = len(tensors) // 2
    expected = {f"{part}{i}" for i in range(count) for part in "wb"}
    floats = all(array.dtype == np.float32 for array in tensors.values())
    if set(tensors) != expected or not floats or header.get("activation") != "tanh":
        raise ResultError(
            f"{where} must hold weights w0.. and biases b0.. in float32 for tanh layers, got {sorted(tensors)}; "
            f"{REMEDY}"
        )
    try:
        policy = MlpPolicy([(tensors[f"w{i}"], tensors[f"b{i}"]) for i in range(count)])
    except ConfigError as error:
        raise ResultError(f"{where} does not hold a usable policy: {error}; {REMEDY}") from None
    if (shapes := [list(weight.shape) for weight, _ in policy.layers]) != header.get("layers"):
        stated = one_line(str(header.get("layers")))
        raise ResultError(
            f"{where} contradicts itself: the header's layers are {stated}, the policy's {shapes}; {REMEDY}"
        )
    return policy


def read_bytes(path: Path) -> bytes:
    """Read at most `MAX_BYTES` + 1 bytes of a plain file.

    Raises:
        ResultError: there is no such file, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ResultError(f"{path} is not a plain file; name a policy file that ncc train or ncc export made")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ResultError(f"there is no policy file {path}; make it with ncc train or ncc export") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else None
        raise ResultError(f"cannot read the policy file {path}: {reason or error}; check its permissions") from None


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
