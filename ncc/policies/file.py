# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing of policy files with a complete header, as hosts need it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncc.agents.arrays import one_line
from ncc.agents.policy import MlpPolicy, policy_bytes, read_bytes, unpacked
from ncc.core.errors import ConfigError, NccError, ResultError
from ncc.core.value import from_dict
from ncc.policies.header import PolicyHeader

WEIGHT_MOST = 1000.0
"""Largest allowed weight or bias. Trained ones stay far below 10; up to this size the network's sums are finite."""
THRESHOLDS = "thresholds"
"""Key in the header of a policy file that sets thresholds (`ncc.policies.thresholds`); its value is the version of
observations and actions."""


@dataclass(frozen=True)
class PolicyFile:
    """The contents of a policy file, which was checked when it was read."""

    header: PolicyHeader
    policy: MlpPolicy
    size_bytes: int
    sha256: str
    """SHA-256 of the whole file."""


def load_policy_file(path: Path, sha256: str | None = None) -> PolicyFile:
    """Read and check the policy file at `path`.

    Args:
        path: path of the file.
        sha256: expected SHA-256; a file with another one is refused before it is interpreted. None: any file is
            accepted.

    Raises:
        ResultError: there is no such file, or it is too large, cut short, changed, of another format or contradicts
            itself; the message says which.
    """
    data = read_bytes(path)
    if sha256 is not None and (digest := hashlib.sha256(data).hexdigest()) != sha256:
        raise ResultError(
            f"{path} is not the file of --digest sha256:{sha256}, but sha256:{digest}: copy the right one, or pin "
            "this one if it is meant"
        )
    return policy_file_from(data, str(path))


def policy_file_from(data: bytes, where: str) -> PolicyFile:
    """Read and check the bytes of a policy file.

    Args:
        where: name of the file in errors.

    Raises:
        ResultError: as in `load_policy_file`.
    """
    policy, plain = unpacked(data, where)
    if THRESHOLDS in plain:
        raise ResultError(f"{where} sets thresholds and no rates: it runs in simulations only, as controller=auto")
    try:
        header = from_dict(PolicyHeader, plain, "header")
        _check_weights(policy)
    except (NccError, RecursionError) as error:
        raise ResultError(f"{where} contradicts itself or is damaged: {one_line(error)}; export it again") from None
    return PolicyFile(header, policy, len(data), hashlib.sha256(data).hexdigest())


def packed(header: PolicyHeader, policy: MlpPolicy) -> bytes:
    """Make the bytes of a policy file, and check that hosts can read them.

    Raises:
        ConfigError: a weight or bias is larger than `WEIGHT_MOST`.
        ResultError: hosts could not read the file.
    """
    _check_weights(policy)
    data = policy_bytes(policy, header.to_dict())
    policy_file_from(data, "the new policy file")
    return data


def _check_weights(policy: MlpPolicy) -> None:
    if (largest := max(float(np.abs(array).max()) for layer in policy.layers for array in layer)) > WEIGHT_MOST:
        raise ConfigError(f"a weight has the size {largest:.3g}, and {WEIGHT_MOST:g} is the most; train it again")
