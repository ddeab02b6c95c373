# SPDX-License-Identifier: BSD-3-Clause
"""Independent random streams from one seed: every random number of a run derives from (seed, purpose)."""

import hashlib

import numpy as np

SEED_LIMIT = 2**63


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Derive a seed for a purpose, e.g. ``derive_seed(3, "train", worker, episode)``; texts must have no slashes.

    Equal arguments give equal seeds on every machine; streams of different purposes are independent.
    """
    text = "/".join([str(seed), *(str(step) for step in purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SEED_LIMIT


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Make a numpy generator with the seed of `derive_seed`."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *purpose)))
