# SPDX-License-Identifier: BSD-3-Clause
"""Receivers as hosts of RLlib's PPO: nothing of it is special to them."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")

from ncc.agents.policy import UNTRAINED_FILE, load_policy
from ncc.agents.rllib.config import RllibConfig
from ncc.envs.observation import ObservationSpec
from ncc.envs.packetsim import PacketsimDatapath
from ncc.run.racks import RackFactory
from tests.agents.fitting import fit
from tests.envs.test_receivers import PAIRS, SENDERS, spec

pytestmark = [pytest.mark.rllib, pytest.mark.usefixtures("ray_here")]


@pytest.mark.parametrize("seen", [SENDERS, PAIRS], ids=["senders", "pairs"])
def test_ppo_takes_receivers(seen: ObservationSpec, tmp_path: Path) -> None:
    config = RllibConfig(
        env_runners=0, racks=2, rollout=20, epochs=400, hidden=(8,), minibatch=40, checkpoint_epochs=400
    )
    reports = fit(config, RackFactory(spec(seen), PacketsimDatapath, 1, 2), tmp_path)
    trained, untrained = (load_policy(tmp_path / name)[0] for name in ("policy.npz", UNTRAINED_FILE))
    assert all(np.isfinite(weight).all() for weight, _ in trained.layers)
    assert any((a != b).any() for (a, _), (b, _) in zip(trained.layers, untrained.layers, strict=True))
    assert reports[-1].epochs >= 400
