# SPDX-License-Identifier: BSD-3-Clause
"""Models of RLlib from checkpoints: those of our trainings, and those of users' scripts on our environments.

Checkpoints hold pickled Python: load only those that you trust.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule

from ncc.core.errors import ConfigError
from ncc.harness.batch import ObsArray

MODULES = Path("learner_group", "learner", "rl_module")
"""The folder of an algorithm's checkpoint that holds its modules."""


class RllibModel:
    """An RLModule; see `ncc.envs.model.Model`."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.observation_space, self.action_space = module.observation_space, module.action_space

    def reset(self, seed: int) -> None:
        torch.set_num_threads(1)  # with many threads, one small network is many times slower
        torch.manual_seed(seed)

    def act(self, obs: ObsArray, *, greedy: bool) -> npt.NDArray[Any]:
        batch = {Columns.OBS: torch.as_tensor(np.asarray(obs, np.float32))}
        forward = self._module.forward_inference if greedy else self._module.forward_exploration
        with torch.no_grad():
            out = forward(batch)
            if Columns.ACTIONS in out:  # a value-based algorithm, which has no distribution
                actions = out[Columns.ACTIONS]
            else:
                kind = self._module.get_inference_action_dist_cls()
                chosen = kind.from_logits(out[Columns.ACTION_DIST_INPUTS])
                actions = (chosen.to_deterministic() if greedy else chosen).sample()
        chosen_actions: npt.NDArray[Any] = actions.numpy()
        if isinstance(self.action_space, spaces.Box):
            chosen_actions = np.clip(chosen_actions, self.action_space.low, self.action_space.high)
        return chosen_actions


def load_rllib(path: Path) -> RllibModel:
    """Load the only module of a checkpoint, which an algorithm or a module has saved.

    Raises:
        ConfigError: no checkpoint, not exactly one module, or one that cannot be used (of another version of RLlib, or
            recurrent).
    """
    logging.getLogger("ray").setLevel(logging.ERROR)  # each module warns that RLlib creates it in an old way
    marker = RLModule.CLASS_AND_CTOR_ARGS_FILE_NAME
    root = path / MODULES if (path / MODULES).is_dir() else path
    roots = [file.parent for file in sorted(root.glob(f"*/{marker}"))] or ([root] if (root / marker).is_file() else [])
    if len(roots) != 1:
        names = f"modules {', '.join(folder.name for folder in roots)}" if roots else "no module"
        raise ConfigError(
            f"{path} has {names}; name a checkpoint of RLlib (algorithm.save_to_path) with one module, or the folder "
            f"of one below {MODULES}"
        )
    try:
        module = RLModule.from_checkpoint(roots[0].resolve())
    except (OSError, ValueError, TypeError, AttributeError, ImportError, KeyError, RuntimeError, EOFError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{roots[0]} is no module of this version of RLlib ({type(error).__name__}: {reason}); train again"
        ) from None
    if module.is_stateful():
        raise ConfigError(
            f"{path} has a recurrent module, which cannot be a controller here; train one without use_lstm"
        )
    return RllibModel(module)
