# SPDX-License-Identifier: BSD-3-Clause
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context

from ncc.core.errors import ConfigError, ResultError
from ncc.results.palette import PALETTE
from ncc.results.plot import DPI, FlowPoints, epoch_timeline, fct_by_size, learning_curve, slowdown_cdf
from ncc.results.plot.canvas import LETTERS_PER_IN, TITLE_PT, plain, thinned_mean
from ncc.results.plot.slowdown import _bins
from tests.support.experiments import fluid_run


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND", "the file is whole"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def is_drawn(path: Path) -> bool:
    """True if the picture has more than a handful of colours."""
    from matplotlib.image import imread

    colours = np.round(imread(path)[..., :3] * 255) @ np.array([65536.0, 256.0, 1.0])
    return len(np.unique(colours)) > 20


def points(n: int = 400) -> dict[str, FlowPoints]:
    rng = np.random.default_rng(1)
    size = np.exp(rng.uniform(np.log(500), np.log(3e7), n)).astype(np.int64)
    slow = 1 + rng.lognormal(0, 1, n)
    late = slow.copy()
    late[:10] = np.nan
    return {"ncc": (size, slow), "something_else": (size, late)}


def rows() -> list[dict[str, object]]:
    return [{"epochs": i * 100, "returns": [float(i), i / 2] if i % 2 else [], "loss": 1.0} for i in range(1, 60)]


def test_pictures_have_their_size_and_something_on_them(tmp_path: Path) -> None:
    learning_curve(rows(), tmp_path / "l.png", references={"ncc_untrained": 3.0}, title="A")
    slowdown_cdf(points(), tmp_path / "c.png")
    fct_by_size(points(), tmp_path / "f.png")
    epoch_timeline(fluid_run(share=True), tmp_path / "t.png", window_s=(0.02, 0.08))
    wanted = {"l.png": (9.0, 4.6), "c.png": (11.6, 4.4), "f.png": (9.5, 4.4), "t.png": (9.5, 7.6)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(wanted), "nothing else stays"
    for name, (width, height) in wanted.items():
        assert png_size(tmp_path / name) == pytest.approx((width * DPI, height * DPI), abs=1)
        assert is_drawn(tmp_path / name)


def test_a_user_s_wish_for_latex_changes_nothing(tmp_path: Path) -> None:
    """LaTeX need not be installed."""
    slowdown_cdf(points(), tmp_path / "plain.png")
    with rc_context({"text.usetex": True}):
        slowdown_cdf(points(), tmp_path / "asked.png")
    assert (tmp_path / "asked.png").read_bytes() == (tmp_path / "plain.png").read_bytes()


def test_panels_without_flows_are_left_out(tmp_path: Path) -> None:
    small = {"ncc": (np.array([100, 200, 300]), np.array([1.0, 2.0, 3.0]))}
    slowdown_cdf(small, tmp_path / "c.png")
    assert png_size(tmp_path / "c.png")[0] == pytest.approx(4.5 * DPI, abs=1), "the small ones are all flows"


def test_flows_of_one_size_are_one_group(tmp_path: Path) -> None:
    size = np.array([32_000] * 500 + [100] * 300 + list(range(200, 400)))
    assert [len(part) for part in _bins(size)] == [300, 75, 125, 500]
    assert [len(part) for part in _bins(np.arange(900))] == [113, 112, 113, 112, 113, 112, 113, 112]
    one = {name: (np.full(500, 32_000), slow) for name, (_, slow) in points(500).items()}
    fct_by_size(one, tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert text.count("kB") == 2, "a tick in each panel"


def test_an_episode_far_from_all_others_does_not_set_the_axis(tmp_path: Path) -> None:
    usual = [{"epochs": i, "returns": [-0.01 * (i % 7)]} for i in range(1, 200)]
    learning_curve(usual, tmp_path / "usual.svg", title="Long " * 40)
    learning_curve([*usual, {"epochs": 200, "returns": [-3.5]}], tmp_path / "far.svg")
    usual_text, far = ((tmp_path / f"{name}.svg").read_text() for name in ("usual", "far"))
    ticks = [re.findall(r">(−0\.\d+)</text>", text) for text in (usual_text, far)]  # noqa: RUF001
    assert ticks[0]
    assert ticks[0] == ticks[1]
    assert "one episode (1 of 200 beyond the axis)" in far
    lines = re.findall(r">((?:Long ?)+)<", usual_text)
    assert sum(line.count("Long") for line in lines) == 40
    assert all(len(line) <= 9 * LETTERS_PER_IN / TITLE_PT for line in lines), "as much as fits the width of nine inches"


def has_colour(path: Path, colour: str) -> bool:
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    return bool((np.abs(imread(path)[..., :3] - np.array(to_rgb(colour))) < 0.2).all(axis=-1)[: 3 * DPI].any())


def test_curves_that_coincide_all_show(tmp_path: Path) -> None:
    """Above the legend, which has every colour anyway."""
    one = points()["ncc"]
    slowdown_cdf(dict.fromkeys(("ncc", "dctcp", "bbr"), one), tmp_path / "c.png")
    learning_curve(rows(), tmp_path / "l.png", references={"ncc": 40.0, "dctcp": 40.0, "bbr": 40.1})
    for name in ("ncc", "dctcp", "bbr"):
        for path in (tmp_path / "c.png", tmp_path / "l.png"):
            assert has_colour(path, PALETTE[name].colour), (name, path)


def test_limits_close_together_have_colours_of_their_own(tmp_path: Path) -> None:
    """On a linear scale 0.01 and 0.04 of the line rate are the same."""
    run = fluid_run(share=True)
    line = run.scenario.network().host_link(run.scenario.network().agent_hosts[0]).rate_bps
    for name, least in (("a", 0.01), ("b", 0.04)):
        limits = np.full_like(run.epochs.columns["rate_limit_bps"], 0.04 * line)
        limits[:, 0] = least * line
        epochs = replace(run.epochs, columns={**run.epochs.columns, "rate_limit_bps": limits})
        epoch_timeline(replace(run, epochs=epochs), tmp_path / f"{name}.png")
    from matplotlib.image import imread

    rows = slice(int(0.42 * 7.6 * DPI), int(0.68 * 7.6 * DPI))
    apart = np.abs(imread(tmp_path / "a.png")[rows, 200:700, :3] - imread(tmp_path / "b.png")[rows, 200:700, :3])
    assert apart.max() > 0.2


def test_one_flow_and_one_episode_can_be_drawn(tmp_path: Path) -> None:
    one = {"ncc": (np.array([100]), np.array([1.0]))}
    slowdown_cdf(one, tmp_path / "c.png")
    fct_by_size(one, tmp_path / "f.png")
    learning_curve([{"epochs": 5, "returns": [1.0]}], tmp_path / "l.png")
    never = {"ncc": (np.array([100]), np.array([np.nan]))}
    slowdown_cdf(never, tmp_path / "n.png")
    fct_by_size(never, tmp_path / "m.png")
    assert len(list(tmp_path.iterdir())) == 5


def test_bad_requests_name_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no episode ended"):
        learning_curve([{"epochs": 5, "returns": []}], tmp_path / "l.png")
    run = fluid_run()
    with pytest.raises(ConfigError, match=r"area must be in \[0, 1\)"):
        epoch_timeline(run, tmp_path / "t.png", area=1)
    with pytest.raises(ConfigError, match="holds no epoch"):
        epoch_timeline(run, tmp_path / "t.png", window_s=(100.0, 101.0))
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot write"):
        fct_by_size(points(), tmp_path / "file" / "f.png")
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("most", "x", "y"),
    [
        (2, [2.0, 4.0], [2.0, 12.5]),
        (3, [1.0, 3.0, 4.0], [1.5, 5.0, 18.0]),
        (9, [0.0, 1.0, 2.0, 3.0, 4.0], [1, 2, 3, 7, 18]),
    ],
)
def test_a_thinned_curve_keeps_its_last_points(most: int, x: list[float], y: list[float]) -> None:
    thin_x, thin_y = thinned_mean(np.arange(5.0), np.array([1.0, 2.0, 3.0, 7.0, 18.0]), most)
    np.testing.assert_allclose(thin_x, x)
    np.testing.assert_allclose(thin_y, y)


@pytest.mark.parametrize(("value", "text"), [(1e6, "1000000"), (2.5e7, "25000000"), (0.1 + 0.2, "0.3"), (1500, "1500")])
def test_ticks_have_no_powers_of_ten(value: float, text: str) -> None:
    assert plain(value, 0) == text
