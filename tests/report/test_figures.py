# SPDX-License-Identifier: BSD-3-Clause
"""Networks are drawn box by box or tier by tier; figures stay small, whoever sends how much."""

from pathlib import Path

import numpy as np
import pytest

from ncc.core.topologies import FatTree, LeafSpine, ManyToOne, Rack, TwoDatacentres
from ncc.results.drawing import amount, sketch, topology_drawing
from ncc.results.plot import learning_curve, slowdown_cdf


def test_a_rack_is_drawn_box_by_box() -> None:
    drawn = sketch(Rack(hosts=16, remotes=4).build())
    assert sorted(box.text for box in drawn.boxes.values()) == [
        "16 hosts: h0 … h15", "4 hosts: r0 … r3\n(remotes)", "core", "tor",
    ]  # fmt: skip
    assert [drawn.boxes[a].text for a, _ in drawn.uplink] == ["tor"]
    assert "tor to core: 4 Gbit/s, 10 µs" in drawn.words


def test_an_incast_shares_the_port_to_its_receiver() -> None:
    drawn = sketch(ManyToOne(senders=3).build())
    assert [drawn.boxes[a].text for a, _ in drawn.uplink] == ["1 host: receiver\n(receiver)"]


def test_a_fat_tree_is_drawn_tier_by_tier() -> None:
    drawn = sketch(FatTree(k=8).build())
    texts = {box.text: box.level for box in drawn.boxes.values()}
    assert texts == {"128 hosts: h0_0_0 … h7_3_3\n(edge)": 0, "32 × edge": 1, "32 × agg": 2, "16 × core": 3}  # noqa: RUF001
    assert [sum(found.values()) for found in drawn.links.values()] == [128, 128, 128]


@pytest.mark.parametrize("spec", [LeafSpine(leaves=20, spines=20), TwoDatacentres(hosts=8, switches=2), FatTree(k=4)])
def test_boxes_do_not_lie_on_each_other(spec: LeafSpine | TwoDatacentres | FatTree, tmp_path: Path) -> None:
    topology_drawing(spec.build(), tmp_path / "network.svg")
    assert "<text" in (tmp_path / "network.svg").read_text()  # text stays text
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4e9, "bit/s", "4 Gbit/s"), (10e-6, "s", "10 µs"), (4.85e-3, "s", "4.85 ms"), (2.0, "s", "2 s"),
        (0, "s", "0 s"), (1500, "s", "1500 s"), (30_000, "B", "30 kB"), (1.17e-6, "s", "1.17 µs"),
    ],
)  # fmt: skip
def test_amounts(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def flows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(100, 10**7, n), 1 + rng.pareto(1.5, n)


def test_a_curve_of_many_flows_is_thinned(tmp_path: Path) -> None:
    slowdown_cdf({"dctcp": flows(50_000)}, tmp_path / "many.svg")
    slowdown_cdf({"dctcp": flows(50_000)}, tmp_path / "again.svg")
    assert (tmp_path / "many.svg").stat().st_size < 150_000
    assert (tmp_path / "many.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_a_controller_that_delivers_less_than_half_is_drawn(tmp_path: Path) -> None:
    size, slowdown = flows(100)
    slowdown[30:] = np.nan
    slowdown_cdf({"dctcp": (size, slowdown), "ncc": flows(100)}, tmp_path / "some.png")
    assert (tmp_path / "some.png").stat().st_size > 1000


def test_a_long_training_is_drawn_small(tmp_path: Path) -> None:
    rows = [{"epochs": 10 * i, "returns": [np.sin(i / 1000)] * 4} for i in range(1, 3000)]
    learning_curve(rows, tmp_path / "curve.svg", references={"dctcp": 0.5})
    assert (tmp_path / "curve.svg").stat().st_size < 400_000
