# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium ids of ncc's environments.

``import ncc`` registers the ids but does not import Gymnasium, because hosts do not have it installed. If Gymnasium is
imported later, the ids are registered then.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

RACK: dict[str, Any] = {
    "entry_point": "ncc.envs.gym:RackEnv",
    "vector_entry_point": "ncc.envs.vector:RackVectorEnv",
}
IDS: dict[str, dict[str, Any]] = {
    "ncc/Rack-v0": RACK,
    "ncc/RackBox-v0": RACK | {"kwargs": {"space": "box"}},
    "ncc/RackOne-v0": RACK | {"kwargs": {"space": "discrete"}},
    "ncc/Thresholds-v0": {"entry_point": "ncc.envs.gym:ThresholdsEnv"},
    "ncc/Ns3Gym-v0": {"entry_point": "ncc.envs.ns3gym.env:Ns3GymEnv"},
}
"""Environments by id. The actions of the first three are an index for each host, a number for each host, and one index
for all hosts; those of the fourth are thresholds of classes. The last is a simulation of another project that speaks
ns3-gym's protocol."""


def register_when_imported() -> None:
    """Register the ids now if Gymnasium is imported, or else as soon as it is."""
    if sys.modules.get("gymnasium"):
        _register()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


def _register() -> None:
    gymnasium = sys.modules["gymnasium"]
    for name, entry in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, **entry)


class _AfterGymnasium:
    """An import finder that finds Gymnasium by the other finders, and calls `_register` after its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name != "gymnasium":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def then_register(module: ModuleType) -> None:
                run(module)
                sys.meta_path.remove(self)
                _register()

            spec.loader.exec_module = then_register  # type: ignore[method-assign]
        return spec
