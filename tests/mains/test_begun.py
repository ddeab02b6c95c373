# SPDX-License-Identifier: BSD-3-Clause
"""Whether a run folder has anything to resume from."""

from pathlib import Path

from ncc.folders import begun


def test_half_a_first_checkpoint_is_no_beginning(tmp_path: Path) -> None:
    assert not begun(tmp_path)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / ".checkpoint-000000000000100.npz.1.partial").write_bytes(b"half")
    assert not begun(tmp_path)
    (folder / "checkpoint-000000000000100.npz").write_bytes(b"whole")
    assert begun(tmp_path)
