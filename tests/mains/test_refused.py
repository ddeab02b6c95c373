# SPDX-License-Identifier: BSD-3-Clause
"""Settings that cannot be used: refused in one sentence, by name and with what is allowed, before anything starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.mains.commands import TINY, ncc
from tests.support.tables import table


def training(given: list[str]) -> list[str]:
    """Overrides of a tiny training with these in the place of its own."""
    keys = {word.split("=", maxsplit=1)[0] for word in given}
    return [*(word for word in TINY if word.split("=", maxsplit=1)[0] not in keys), *given]


def cases() -> Iterator[ParameterSet]:
    for common, rows in table(__file__, "refused.yaml").items():
        main, *words = common.split()
        for typed, said in rows:
            given = [typed] if isinstance(typed, str) else typed
            arguments = training(given) if common == "train" else [*words, *given]
            yield pytest.param(main, arguments, said, id=f"{common} {' '.join(given)}")


@pytest.mark.parametrize(("main", "arguments", "said"), list(cases()))
def test_refused_by_name_with_the_reason(main: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = ncc(main, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
    assert not list(tmp_path.rglob("manifest.json"))


def test_an_infinite_wait_with_too_much_load_is_refused(tmp_path: Path) -> None:
    done = ncc("train", "scenario.drain_s=null", "scenario.workload.websearch.load_frac=1.2", cwd=tmp_path)
    assert done.returncode == 2
    assert "tor->core" in done.stderr
    assert "load_frac" in done.stderr


def test_a_sweep_says_at_which_job_it_ended(tmp_path: Path) -> None:
    done = ncc("train", "-m", *TINY, "seed=-1,2", cwd=tmp_path)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert "seed must be" in first
    assert second.startswith("the sweep ends here, at ")
    assert second.endswith("seed=-1")


@pytest.mark.parametrize("text", [None, "null", "[]", "{}", '{"agent": 1}', "{", '{"seed": 1}'])
def test_a_damaged_configuration_is_refused(text: str | None, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    if text is not None:
        (tmp_path / "run" / "config.json").write_text(text)
    done = ncc("train", "resume=run", cwd=tmp_path)
    assert done.returncode == 1
    assert "config.json" in done.stderr
