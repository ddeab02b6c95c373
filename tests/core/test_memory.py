# SPDX-License-Identifier: BSD-3-Clause
"""Memory that processes share, where a container has none or little of it."""

from pathlib import Path

import pytest

from ncc.core import memory
from ncc.core.errors import ConfigError
from ncc.core.memory import require_shared_memory


def test_a_container_without_it_is_told_what_to_mount(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "SHARED", tmp_path / "none")
    with pytest.raises(ConfigError) as refused:
        require_shared_memory("training", 16 * 2**20)
    assert str(refused.value) == (
        f"training needs 16 MiB of shared memory in {tmp_path / 'none'}, which cannot be written here "
        "(No such file or directory); mount a tmpfs there (docker run --shm-size=64m)"
    )


def test_room_is_looked_at_before_anything_is_written() -> None:
    require_shared_memory("training", 4096)
    with pytest.raises(ConfigError, match=r"which has \d+ KiB left; mount a tmpfs there"):
        require_shared_memory("training", 2**60)
