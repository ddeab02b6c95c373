# SPDX-License-Identifier: BSD-3-Clause
"""Models of Stable-Baselines3 and sb3-contrib, from files that `model.save` wrote.

Only the policy is built, as the file describes it, so any algorithm works. Such files hold pickled Python: load only
those that you trust.
"""

import inspect
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.harness.batch import ObsArray

NEEDED = ("policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde")
"""Fields of the algorithm that the file must have."""
WEIGHTS = "policy.pth"


class Sb3Model:
    """A policy of Stable-Baselines3; see `ncc.envs.model.Model`."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self._state: Any = None

    def reset(self, seed: int) -> None:
        import torch

        torch.set_num_threads(1)  # with many threads, one small network is many times slower
        torch.manual_seed(seed)
        self._state = None

    def act(self, obs: ObsArray, *, greedy: bool) -> npt.NDArray[Any]:
        begins = np.full(len(obs), self._state is None)
        actions, self._state = self._policy.predict(obs, self._state, begins, deterministic=greedy)
        return np.asarray(actions)


def load_sb3(path: Path) -> Sb3Model:
    """Load the model in a file.

    Raises:
        ConfigError: no such file, no model, or a package that it needs is not installed.
    """
    remedy = "name a file that model.save of Stable-Baselines3 wrote"
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("data"))
            needed = {key: data[key] for key in NEEDED if key in data}
            module = needed["policy_class"]["__module__"].partition(".")[0]
            contrib = ["sb3_contrib"] if module == "sb3_contrib" else []
            require_extra("sb3", str(path), "stable_baselines3", *contrib)
            return Sb3Model(_policy(needed, archive))
    except ConfigError:
        raise
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; {remedy}") from None
    except (zipfile.BadZipFile, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no model of Stable-Baselines3 ({_line(error)}); {remedy}") from None
    except (RuntimeError, ImportError, EOFError) as error:
        raise ConfigError(f"the model in {path} cannot be built here ({_line(error)}); save it again") from None


def _policy(needed: dict[str, Any], archive: zipfile.ZipFile) -> Any:
    import torch
    from stable_baselines3.common.save_util import json_to_data

    parts = json_to_data(json.dumps(needed))
    kind, kwargs = parts["policy_class"], dict(parts["policy_kwargs"])
    takes = inspect.signature(kind).parameters
    if "lr_schedule" in takes:  # not of algorithms without gradients
        kwargs["lr_schedule"] = lambda _: 0.0
    if "use_sde" in takes:
        kwargs.setdefault("use_sde", parts["use_sde"])
    policy = kind(parts["observation_space"], parts["action_space"], **kwargs)
    with archive.open(WEIGHTS) as file:
        policy.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return policy


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
