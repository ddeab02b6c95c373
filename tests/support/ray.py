# SPDX-License-Identifier: BSD-3-Clause
"""One Ray for all tests that are not about starting, joining or ending one: that takes longer than most of them."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENT = {
    "RAY_health_check_timeout_ms": "300000",
    "RAY_health_check_period_ms": "500",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Settings with which Ray ends nothing because the machine is busy or its memory short."""


@contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path is short enough for Ray's sockets, which pytest's is not."""
    from ncc.agents.rllib.cluster import LONGEST_TEMPORARY

    with tempfile.TemporaryDirectory(prefix="n") as folder:
        assert len(folder) <= LONGEST_TEMPORARY, f"{folder} is too long for Ray's sockets: set TMPDIR to a shorter one"
        yield Path(folder)


def left_behind(folder: Path) -> list[str]:
    """Files in a folder that was home and temporary folder of a Ray, and folders of results of RLlib's."""
    return [str(path) for path in folder.rglob("*") if path.is_file() or path.parent.name == "ray_results"]


@pytest.fixture(scope="session")
def ray_results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """RLlib makes its folders of results here, in place of the user's home."""
    trainable = pytest.importorskip(
        "ray.tune.trainable.trainable", reason="rllib: ray is not installed (the extra rllib)"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainable, "DEFAULT_STORAGE_PATH", str(tmp_path_factory.mktemp("ray_results")))
        yield


@pytest.fixture(scope="session")
def ray_here(ray_results: None) -> Iterator[str]:
    """Address of a private Ray with room for four processes, which leaves nothing behind."""
    import ray

    from ncc.agents.rllib.cluster import connected

    with short_folder() as folder:
        private = connected(None, cpus=4)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder))
            for name, value in PATIENT.items():
                patch.setenv(name, value)
            private.__enter__()
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            private.__exit__(None, None, None)
        assert left_behind(folder) == []


class NoRay:
    """Stands in for the module `ray` where none runs yet; `init` is what happens when one is started or joined."""

    def __init__(self, init: Callable[..., Any] = pytest.fail) -> None:
        import ray

        self.init, self.exceptions = init, ray.exceptions

    def is_initialized(self) -> bool:
        return False

    def shutdown(self) -> None:
        pass
