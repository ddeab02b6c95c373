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
from ncc.core.topologies import FatTree
from ncc.envs.gym import RackEnv
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.picture import RackPicture
from tests.envs.cases import measured, poisson, rack

SMALL = rack(poisson(), periods=5)
pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


def test_bars_and_lines_are_what_was_measured_even_where_a_user_wants_latex() -> None:
    picture = RackPicture(SMALL)
    picture.see(measured(SMALL))
    limits, rates, waiting = [np.inf, 5e8, 1e8, np.inf], [1e9, 5e8, 0.0, 0.0], [1e6, 0.0, 0.0, 3e3]
    columns: dict[str, Any] = {"throughput_bps": rates, "queued_bytes": waiting, "rate_limit_bps": limits}
    picture.see(measured(SMALL, 1, uplink_queue_bytes=128_000.0, **columns))
    with rc_context({"text.usetex": True}):
        frame = picture.frame()
    assert frame.dtype == np.uint8
    assert frame.shape == (640, 720, 3)
    assert frame.std() > 10  # something is drawn
    rate, wait, queue = picture._canvas[0].axes
    assert [bar.get_height() for bar in rate.patches] == rates
    assert [bar.get_height() for bar in wait.patches] == waiting
    assert [segment[0][1] for segment in rate.collections[0].get_segments()] == [5e8, 1e8]  # the others have none
    assert rate.get_title() == "1.0 ms, 0 of 0 flows delivered"
    assert queue.lines[0].get_ydata().tolist() == [0, 128_000]


def test_several_neighbourhoods_have_a_queue_each_and_as_many_hosts_are_named_as_fit() -> None:
    traffic = poisson().replace(sources="hosts", destinations="hosts")
    scenario = SMALL.replace(topology=FatTree(k=4), workload=(("all", traffic),))
    picture = RackPicture(scenario)
    picture.see(measured(scenario, uplink_queue_bytes=np.arange(8) * 1e3))
    picture.frame()
    _, wait, queue = picture._canvas[0].axes
    assert [line.get_ydata().tolist() for line in queue.lines] == [[1e3 * area] for area in range(8)]
    assert len(wait.get_xticklabels()) == 8


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
    picture = env._racks._pictures[0]
    assert isinstance(picture, RackPicture)
    assert picture._canvas[0].axes[2].lines[0].get_xdata() == pytest.approx([0, 1, 2, 3, 4, 5])
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
    with pytest.raises(ConfigError, match="render_mode must be rgb_array or None, got 'ansi'"):
        RackEnv(SMALL, render_mode="ansi")


def test_a_frame_is_drawn_anew_from_what_was_measured_last() -> None:
    """A frame shows nothing of the frames before it."""
    loud: dict[str, Any] = {"throughput_bps": [1e9] * 4, "queued_bytes": [1e6] * 4, "rate_limit_bps": [5e8] * 4}
    frames = []
    quiet: dict[str, Any] = {}
    for columns in ([loud, quiet], [quiet, quiet]):
        picture = RackPicture(SMALL)
        for values in columns:
            picture.see(measured(SMALL, **values))
            frames.append(picture.frame())
    assert not np.array_equal(frames[0], frames[1])
    assert all(np.array_equal(frame, frames[1]) for frame in frames[2:])
