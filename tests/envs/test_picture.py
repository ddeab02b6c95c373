# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the network and its queues."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RenderCollection
from matplotlib import rc_context

import ncc  # noqa: F401 - registers
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.scenario import Scenario
from ncc.core.topologies import FatTree, LeafSpine
from ncc.envs.gym import RackEnv
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.picture import RackPicture
from tests.envs.cases import measured, poisson, rack

SMALL = rack(poisson(), periods=5)
pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


def drawn(scenario: Scenario, **columns: Any) -> Any:
    """The parts of an epoch's frame."""
    picture = RackPicture(scenario)
    picture.see(measured(scenario))
    picture.see(measured(scenario, 1, **columns))
    frame = picture.frame()
    assert frame.dtype == np.uint8
    assert frame.shape == (640, 720, 3)
    assert frame.std() > 10  # something is drawn
    return picture._drawing


def test_a_user_s_wish_for_latex_changes_nothing() -> None:
    with rc_context({"text.usetex": True}):
        drawn(SMALL)


def test_bars_and_lines_are_what_was_measured() -> None:
    made = drawn(
        SMALL,
        throughput_bps=[1e9, 5e8, 0.0, 0.0],
        queued_bytes=[1e6, 0.0, 0.0, 3e3],
        rate_limit_bps=[np.inf, 5e8, 1e8, np.inf],
        uplink_queue_bytes=128_000.0,
        uplink_throughput_bps=1.5e9,
    )
    assert [bar.get_height() for bar in made._sent] == [1e9, 5e8, 0, 0]
    assert [bar.get_height() for bar in made._waiting] == [1e6, 0, 0, 3e3]
    assert [segment[0][1] for segment in made._limit.get_segments()] == [5e8, 1e8]  # the others have none
    assert [bar.get_width() / made._width for bar in made._full] == [128 / 512]
    assert list(made._links.get_linewidths()) == [7.5, 4.0, 0.5, 0.5]
    assert made._words[0].get_text() == "tor->core: 1.5 Gbit/s of 2.0 Gbit/s, queue 128 kB of 512 kB"
    assert made._title.get_text() == "1.0 ms, 0 of 0 flows delivered"
    assert made._lines[0].get_ydata().tolist() == [0, 128_000]


def test_several_neighbourhoods_have_a_port_each() -> None:
    topology = LeafSpine(leaves=3, spines=2, hosts_per_leaf=2)
    traffic = poisson().replace(sources="hosts", destinations="hosts")
    made = drawn(SMALL.replace(topology=topology, workload=(("all", traffic),)), uplink_queue_bytes=[0.0, 256e3, 1e6])
    assert [bar.get_width() / made._width for bar in made._full] == pytest.approx([0, 0.5, 1])
    assert [words.get_text() for words in made._words] == ["leaf0", "leaf1", "leaf2"]


def test_as_many_ports_are_named_as_fit() -> None:
    traffic = poisson().replace(sources="hosts", destinations="hosts")
    made = drawn(SMALL.replace(topology=FatTree(k=8), workload=(("all", traffic),)))
    named = [words for words in made._words if words.get_text()]
    assert len(named) == 8 < len(made._words)
    right_edges, left_edges = zip(*((b.x1, b.x0) for b in (w.get_window_extent() for w in named)), strict=True)
    assert all(end < begin for end, begin in zip(right_edges, left_edges[1:], strict=False))


def test_an_episode_begins_with_an_empty_past() -> None:
    env = RackEnv(SMALL, render_mode="rgb_array")
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.render()
    for _ in range(2):
        env.reset(seed=1)
        frames = [env.render()]
        for _ in range(5):
            env.step(np.full(4, 10))
        frames.append(env.render())
        assert not np.array_equal(*frames)  # type: ignore[arg-type]
    assert env._pictures[0]._drawing._lines[0].get_xdata().tolist() == pytest.approx([0, 1, 2, 3, 4, 5])
    env.close()
    assert RackEnv(SMALL).render() is None


def test_frames_by_gymnasiums_ways() -> None:
    env: Any = RenderCollection(gymnasium.make("ncc/Rack-v0", scenario=SMALL, render_mode="rgb_array"))
    env.reset(seed=1)
    env.step(np.full(4, 10))
    assert [frame.shape for frame in env.render()] == [(640, 720, 3)] * 2
    env.close()
    several: Any = gymnasium.make_vec("ncc/Rack-v0", 2, scenario=SMALL, render_mode="rgb_array")
    several.reset(seed=1)
    several.step(np.full((2, 4), 10))
    frames = several.render()
    assert frames is not None
    assert [frame.shape for frame in frames] == [(640, 720, 3)] * 2
    several.close()
    parallel = RackParallelEnv(SMALL, render_mode="rgb_array")
    parallel.reset(seed=1)
    frame = parallel.render()
    assert frame is not None
    assert frame.shape == (640, 720, 3)


def test_another_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="render_mode must be rgb_array or None, got 'human'"):
        RackEnv(SMALL, render_mode="human")
