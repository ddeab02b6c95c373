# SPDX-License-Identifier: BSD-3-Clause
"""Reading and making policy files. No pickle, nothing compressed, and every byte checked before it is used."""

import hashlib
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ncc.agents.export.container import SUMS, pack, read_bytes, sums_of, unpack
from ncc.agents.export.model import onnx_model
from ncc.agents.export.wire import model_bytes
from ncc.agents.policy import Layer, MlpPolicy
from ncc.core.errors import ConfigError, NccError, ResultError
from ncc.core.value import from_dict
from ncc.deployed.header import FORMAT, KIND, PolicyHeader

SUFFIX = ".ncc"
HEADER, WEIGHTS, MODEL = "policy.json", "weights.f32", "model.onnx"
PARTS = (HEADER, WEIGHTS, MODEL, SUMS)


@dataclass(frozen=True)
class PolicyFile:
    """A policy file that was checked."""

    header: PolicyHeader
    policy: MlpPolicy
    """In numpy."""
    model: bytes
    """The same policy in ONNX; `ncc.agents.export.model.onnx_logits` runs it."""
    sizes_bytes: Mapping[str, int]
    """Of each part."""
    sha256: str
    """Of the whole file."""


def policy_file_parts(header: PolicyHeader, policy: MlpPolicy) -> dict[str, bytes]:
    """What a file is packed from; equal policies and headers give equal bytes.

    Raises:
        ConfigError: the header is of another policy, or the package onnx is not installed.
    """
    shapes = tuple(weight.shape for weight, _ in policy.layers)
    if shapes != header.layers:
        raise ConfigError(f"the header's layers are {header.layers}, the policy's {shapes}")
    parts = {
        HEADER: (json.dumps(header.to_dict(), indent=1, allow_nan=False) + "\n").encode(),
        WEIGHTS: b"".join(array.astype("<f4").tobytes() for layer in policy.layers for array in layer),
        MODEL: onnx_model(policy, header.name),
    }
    return {**parts, SUMS: sums_of(parts)}


def load_policy_file(path: Path) -> PolicyFile:
    """The policy file at `path`, checked in full.

    Raises:
        ResultError: no such file, or it is too large, cut short, changed, of a newer version or contradicts itself; the
            message says which.
    """
    return policy_file_from(read_bytes(path), str(path))


def policy_file_from(data: bytes, where: str) -> PolicyFile:
    """The same from a file's bytes; `where` they come from, for errors."""
    parts = unpack(data, where)
    header = _header(parts.get(HEADER, b""), where)
    if tuple(parts) != PARTS:
        raise ResultError(f"{where} must have the parts {', '.join(PARTS)}, found {', '.join(parts)}; export it again")
    if parts[SUMS] != sums_of(parts):
        raise ResultError(f"{where} is damaged: {SUMS} is not of its parts; copy it again, or export it again")
    if len(parts[WEIGHTS]) != 4 * header.n_weights:
        raise ResultError(
            f"{where} contradicts itself: its layers have {header.n_weights} weights, and {WEIGHTS} has "
            f"{len(parts[WEIGHTS])} bytes, not four for each; export it again"
        )
    try:
        policy = MlpPolicy(_layers(header, parts[WEIGHTS]))
    except ConfigError as error:
        raise ResultError(f"{where} does not hold a usable policy: {error}") from None
    if parts[MODEL] != model_bytes(policy, header.name):
        raise ResultError(
            f"{where} contradicts itself: {MODEL} is not the model that {HEADER} and {WEIGHTS} make, byte for byte; "
            "export it again"
        )
    sizes = {name: len(part) for name, part in parts.items()}
    return PolicyFile(header, policy, parts[MODEL], sizes, hashlib.sha256(data).hexdigest())


def packed(header: PolicyHeader, policy: MlpPolicy) -> bytes:
    """The bytes of a policy file, read back once before anybody gets them.

    Raises:
        ConfigError: as `policy_file_parts`; or they are more than a file may have.
    """
    data = pack(policy_file_parts(header, policy))
    policy_file_from(data, "what was just exported")
    return data


def _header(text: bytes, where: str) -> PolicyHeader:
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResultError(f"{where} is no policy file: its {HEADER} is not JSON ({error}); export it again") from None
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        raise ResultError(f"{where} is no policy file: its {HEADER} is not of kind {KIND}; name another file")
    if (found := plain.get("format")) != FORMAT or isinstance(found, bool):
        raise ResultError(
            f"{where} has format {str(found)[:20]!r} of policy files and this ncc reads format {FORMAT}: use the ncc "
            "that wrote it, or export it again with this one"
        )
    try:
        return from_dict(PolicyHeader, plain, HEADER)
    except (NccError, RecursionError) as error:
        said = textwrap.shorten(str(error), 400, placeholder=" ...")
        said = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in said)  # a key of the file may be anything
        raise ResultError(f"{where} contradicts itself or is damaged: {said}; export it again") from None


def _layers(header: PolicyHeader, data: bytes) -> list[Layer]:
    numbers, at, layers = np.frombuffer(data, dtype="<f4"), 0, []
    for outputs, inputs in header.layers:
        middle, end = at + outputs * inputs, at + outputs * (inputs + 1)
        layers.append((numbers[at:middle].reshape(outputs, inputs), numbers[middle:end]))
        at = end
    return layers
