# SPDX-License-Identifier: BSD-3-Clause
"""Flow sizes from a file: both usual forms, what they mean, and every fault by file and line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from ncc.core.distributions import distribution
from ncc.core.errors import ConfigError
from ncc.core.scenario import scenario_from_dict
from ncc.core.sizes import read_sizes, with_tables
from ncc.core.workload import Poisson
from ncc.envs.families import families_from
from ncc.run.compose import plain_config
from tests.envs.cases import rack

PERCENT = "# bytes percent\n0 0\n10000 15 # mostly small\n\n20000, 20\n30000000\t100\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_file(name: str) -> dict[str, Any]:
    plain = rack().to_dict()
    plain["workload"][0][1]["distribution"] = name
    return plain


def test_percent_and_fractions_are_one_table(here: Path) -> None:
    (here / "sizes.txt").write_text(PERCENT)
    (here / "fractions.txt").write_text("0 0\n10000 0.15\n20000 0.2\n3e7 1\n")
    table = read_sizes(Path("sizes.txt"))
    assert list(table.points) == [(0, 0), (10_000, 0.15), (20_000, 0.2), (30_000_000, 1)]
    assert read_sizes(Path("fractions.txt")).points == table.points
    assert table.mean_bytes == pytest.approx(0.15 * 5_000 + 0.05 * 15_000 + 0.8 * 15_010_000)


def test_a_rounded_last_share_and_a_byte_order_mark_are_read(here: Path) -> None:
    for last in ("0.9999999", "100.00005"):
        (here / "sizes.txt").write_text(f"\ufeff0 0\n500 {last}\n1000 {last}\n", encoding="utf-8")
        assert [share for _, share in read_sizes(Path("sizes.txt")).points] == pytest.approx([0, 1, 1], abs=1e-6)
        assert read_sizes(Path("sizes.txt")).points[-1] == (1000, 1.0)


def test_a_first_share_above_nothing_is_that_of_the_first_size(here: Path) -> None:
    (here / "sizes.txt").write_text("500 40\n1500 100\n")
    table = read_sizes(Path("sizes.txt"))
    assert table.mean_bytes == pytest.approx(0.4 * 500 + 0.6 * 1000)
    drawn = table.sample(20_000, np.random.default_rng(1))
    assert np.mean(drawn == 500) == pytest.approx(0.4, abs=0.02)
    assert drawn.max() <= 1500


def test_a_scenario_holds_what_the_file_says(here: Path) -> None:
    (here / "sizes.txt").write_text(PERCENT)
    one = scenario_from_dict(of_file("sizes.txt"))
    plain = one.to_dict()
    (here / "sizes.txt").write_text("0 0\n500 100\n")
    assert scenario_from_dict(of_file("sizes.txt")).digest() != one.digest()
    (here / "sizes.txt").unlink()
    again = scenario_from_dict(plain)
    assert again == one
    assert np.array_equal(again.flows(1).size_bytes, one.flows(1).size_bytes)


def test_run_folders_and_families_do_not_need_the_file(here: Path) -> None:
    (here / "sizes.txt").write_text(PERCENT)
    varies = {"workload.traffic.distribution": {"kind": "choice", "values": ["hadoop", "./sizes.txt"]}}
    family = {"scenario": rack().to_dict(), "varies": varies}
    plain = plain_config(OmegaConf.create({"families": {"hosts_per_slot": 4, "epochs": 20, "of": {"a": family}}}))
    (here / "sizes.txt").unlink()
    families = families_from(plain["families"])
    drawn = [families.draw(1, 0, episode).workload[0][1] for episode in range(12)]
    names = {distribution(traffic.distribution).name for traffic in drawn if isinstance(traffic, Poisson)}
    assert names == {"hadoop", "sizes.txt"}


BAD = [
    ("", "must have 2 to"),
    ("# nothing\n100 100\n", "must have 2 to"),
    ("0 0\n100 x\n200 100\n", "line 2: it must have two numbers"),
    ("0 0\n100\n", "line 2: it must have two numbers"),
    ("0 0 0\n100 100\n", "line 1: it must have two numbers"),
    ("0 0\n200 50\n100 100\n", "line 3: the size falls from 200 to 100"),
    ("0 0\n# so far\n100 60\n200 50\n300 100\n", "line 4: the share falls from 60 to 50"),
    ("0 0\n100 99\n", "line 2: the last share must be 100"),
    ("0 0\n100 0.999998\n", "got 0.999998"),
    ("0 0\n100 0.5\n", "line 2: the last share must be 100"),
    ("-5 0\n100 100\n", "line 1: the size must be 0 to"),
    ("0 0\nnan 100\n", "line 2: the size must be 0 to"),
    ("0 0\n1e30 100\n", "line 2: the size must be 0 to"),
    ("0 -1\n100 100\n", "line 1: the share must be"),
    ("0 0\n100 1000\n", "line 2: the share must be"),
    ("0 0\n0.5 1\n", "line 2: the largest size"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[said for _, said in BAD])
def test_a_malformed_table_is_refused_by_name_and_line(text: str, said: str, here: Path) -> None:
    (here / "sizes.txt").write_text(text)
    with pytest.raises(ConfigError) as refused:
        scenario_from_dict(of_file("sizes.txt"))
    assert said in str(refused.value)
    assert "sizes.txt" in str(refused.value)


def test_a_file_that_is_none_is_refused(here: Path) -> None:
    (here / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name, why in (("none.txt", "No such file"), ("binary.txt", "not text"), ("./", "Is a directory")):
        with pytest.raises(ConfigError, match=why):
            with_tables({"distribution": name})
    with pytest.raises(ConfigError, match="Did you mean 'hadoop'"):
        scenario_from_dict(of_file("hadop"))


def test_a_table_of_values_is_checked_as_well() -> None:
    points = ((0, 0.0), (10, 0.5), (5, 1.0))
    plain = of_file("hadoop")
    plain["workload"][0][1]["distribution"] = {"name": "mine", "points": points}
    with pytest.raises(ConfigError, match=r"distribution.*points\[2\]: neither column may fall"):
        scenario_from_dict(plain)
