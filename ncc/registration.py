# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's ids of our environments.

``import ncc`` registers them and does not import Gymnasium, which hosts run without: where Gymnasium comes later, they
are registered when it does.
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
    "ncc/Ns3Gym-v0": {"entry_point": "ncc.envs.ns3gym.env:Ns3GymEnv"},
}
"""An index for each host, a number for each host, one index for all hosts; and simulations of others."""


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
    """A finder that finds Gymnasium as the others do, and lets its import end with `_register`."""

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
