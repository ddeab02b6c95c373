# SPDX-License-Identifier: BSD-3-Clause
"""Policy files: a safetensors file of the weights, with the policy's header as JSON in its metadata.

Reading is strict: a file that is not byte for byte what `packed` makes of its contents is refused.
"""

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ncc.agents.policy import FloatArray32, MlpPolicy
from ncc.core.errors import ConfigError, NccError, ResultError
from ncc.core.value import from_dict
from ncc.policies.header import FORMAT, KIND, PolicyHeader

SUFFIX = ".ncc"
MAX_BYTES = 1_000_000
"""Size limit of a policy file."""
WEIGHT_MOST = 1000.0
"""Largest weight or bias: trained ones stay far below 10, and from here on sums stay finite."""
REMEDY = "copy it again, or export it again"

Tensors = Mapping[str, FloatArray32]


@dataclass(frozen=True)
class PolicyFile:
    """A policy file that was checked."""

    header: PolicyHeader
    policy: MlpPolicy
    size_bytes: int
    sha256: str
    """SHA-256 of the whole file."""


def load_policy_file(path: Path, sha256: str | None = None) -> PolicyFile:
    """Read and check the policy file at `path`.

    Args:
        path: of the file.
        sha256: the file's SHA-256; of any other file no byte is interpreted. None: any file will do.

    Raises:
        ResultError: no such file, or it is too large, cut short, changed, of another format or contradicts itself; the
            message says which.
    """
    data = read_bytes(path)
    if sha256 is not None and (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise ResultError(
            f"{path} is not the file of --digest sha256:{sha256}, but sha256:{found}: copy the right one, or pin "
            "this one if it is meant"
        )
    return policy_file_from(data, str(path))


def policy_file_from(data: bytes, where: str) -> PolicyFile:
    """Read and check the bytes of a policy file; errors call it `where`."""
    plain, tensors = _unpacked(data, where)
    try:
        header = from_dict(PolicyHeader, plain, "header")
    except (NccError, RecursionError) as error:
        raise ResultError(f"{where} contradicts itself or is damaged: {_shown(error)}; export it again") from None
    expected = {f"{part}{i}" for i in range(len(header.layers)) for part in "wb"}
    if set(tensors) != expected or any(array.dtype != np.float32 for array in tensors.values()):
        raise ResultError(f"{where} must hold weights w0.. and biases b0.. in float32 for each layer; export it again")
    try:
        policy = MlpPolicy([(tensors[f"w{i}"], tensors[f"b{i}"]) for i in range(len(header.layers))])
        _check_layers(header, policy)
    except ConfigError as error:
        raise ResultError(f"{where} does not hold a usable policy: {error}; export it again") from None
    return PolicyFile(header, policy, len(data), hashlib.sha256(data).hexdigest())


def packed(header: PolicyHeader, policy: MlpPolicy) -> bytes:
    """Make the bytes of a policy file; equal policies and headers give equal bytes."""
    _check_layers(header, policy)
    tensors = {
        f"{part}{i}": array for i, layer in enumerate(policy.layers) for part, array in zip("wb", layer, strict=True)
    }
    data = _packed(header.to_dict(), tensors)
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"a policy file may have {MAX_BYTES} bytes and this would have {len(data)}: train a smaller policy"
        )
    policy_file_from(data, "what was just exported")
    return data


def read_bytes(path: Path) -> bytes:
    """Read at most `MAX_BYTES` + 1 bytes of a plain file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ResultError(f"{path} is not a plain file; name a policy file that ncc export made")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ResultError(f"there is no policy file {path}; make it with ncc export") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        says = error.strerror if isinstance(error, OSError) else None
        raise ResultError(f"cannot read the policy file {path}: {says or error}; check its permissions") from None


def _packed(plain: Mapping[str, Any], tensors: Tensors) -> bytes:
    """Safetensors bytes; the digest of header and weights goes into the header.

    All metadata is one entry, because safetensors writes several in no fixed order.
    """
    text = json.dumps(plain, allow_nan=False)
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].tobytes())
    return save(dict(tensors), {KIND: json.dumps({**plain, "sha256": digest.hexdigest()}, allow_nan=False)})


def _unpacked(data: bytes, where: str) -> tuple[dict[str, Any], Tensors]:
    """The plain header and the weights of a file whose bytes are those that `_packed` makes."""
    if len(data) > MAX_BYTES:
        raise ResultError(f"{where} has more than the {MAX_BYTES} bytes that a policy file may have; name another file")
    try:
        tensors = load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = msgspec.json.decode(data[8 : 8 + length]).get("__metadata__", {})
        plain = msgspec.json.decode(metadata.get(KIND, "null"))
        if not isinstance(plain, dict):
            raise TypeError(f"its metadata holds no {KIND}")
        _check_format(plain, where)
        plain.pop("sha256", None)
        again = _packed(plain, tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ResultError(f"{where} is no policy file ({_shown(error)}): name another file, or {REMEDY}") from None
    if again != data:
        raise ResultError(f"{where} is damaged: it is not what its header and weights make, byte for byte; {REMEDY}")
    return plain, tensors


def _check_format(plain: Mapping[str, Any], where: str) -> None:
    if (found := plain.get("format")) != FORMAT or isinstance(found, bool):
        raise ResultError(
            f"{where} has format {str(found)[:20]!r} of policy files and this ncc reads format {FORMAT}: use the ncc "
            "that wrote it, or export it again with this one"
        )


def _check_layers(header: PolicyHeader, policy: MlpPolicy) -> None:
    if (shapes := tuple(weight.shape for weight, _ in policy.layers)) != header.layers:
        raise ConfigError(f"the header's layers are {header.layers}, the policy's {shapes}")
    if (largest := max(float(np.abs(array).max()) for layer in policy.layers for array in layer)) > WEIGHT_MOST:
        raise ConfigError(f"a weight has the size {largest:.3g}, and {WEIGHT_MOST:g} is the most; train it again")


def _shown(error: Exception) -> str:
    """The first 400 characters of an error, in one line and with control characters escaped."""
    line = " ".join(str(error).split())[:400]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
