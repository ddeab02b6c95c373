# SPDX-License-Identifier: BSD-3-Clause
"""Racks in a process each, against the same in this process."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, NccError, UnknownNameError, WorkerDiedError
from ncc.core.measurement import Measurement
from ncc.envs.rack import RackBatch
from ncc.envs.racks import Racks
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.harness.datapath import HostStack
from ncc.harness.networks import InProcesses, WorkerNetworks
from tests.envs.cases import FLOWS, rack, spec
from tests.envs.faults import Light, SignalMask
from tests.envs.test_racks import assert_equal_alone
from tests.support.fluid import FluidDatapath
from tests.support.mm1 import Mm1Datapath

TOP = np.full((2, 4), 10)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path.iterdir opens one itself


def workers(datapath: DatapathFactory, rack: int = 0, what: EnvSpec | None = None) -> RackBatch:
    return RackBatch(what or spec(), InProcesses(datapath), 1, rack, 2)


def run(env: RackBatch, epochs: int) -> None:
    env.reset()
    for _ in range(epochs):
        env.step(TOP)


def children() -> set[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in listed if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.fixture(scope="module")
def _warm() -> None:
    """multiprocessing keeps a resource tracker and a first arena of shared memory for the next time."""
    with closing(workers(Mm1Datapath)) as env:
        env.reset()


@pytest.fixture(autouse=True)
def _nothing_is_left(_warm: None) -> Iterator[None]:
    """Each test leaves no worker, no shared memory and no descriptor behind."""
    before = descriptors(), shared()
    yield
    assert not children()
    gc.collect()
    assert descriptors() <= before[0]
    assert shared() <= before[1]


def shared() -> int:
    """Pieces of shared memory that this process maps; multiprocessing unlinks their names at once."""
    return Path("/proc/self/maps").read_text().count("/dev/shm/")


@pytest.mark.parametrize("first_rack", [0, 4])
def test_workers_equal_racks_in_this_process_bit_for_bit(first_rack: int) -> None:
    assert_equal_alone(spec(rack(periods=12)), FLOWS, 2, first=first_rack, by=InProcesses(FLOWS))


def test_a_killed_worker_is_named_and_stops_the_others() -> None:
    env = workers(Mm1Datapath, rack=6)
    run(env, 1)
    pids = sorted(children())
    assert len(pids) == 2
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"^rack \d: the worker process \d+ was killed by SIGKILL .*the others"):
        run(env, 3)
    assert not children()
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(TOP)
    assert env.reset().shape == (2, 4, 17)  # by new workers
    env.close()


@pytest.mark.parametrize(
    ("transport", "kind", "message"),
    [
        ("aborts", WorkerDiedError, r"^rack 0: the worker process \d+ was killed by SIGABRT"),
        ("exits", WorkerDiedError, r"^rack 0: the worker process \d+ ended with exit status 7"),
        ("broken", DatapathError, r"^rack 0: the broken transport broke"),
        ("dctpc", UnknownNameError, r"^rack 0: Unknown transport 'dctpc'. Did you mean 'dctcp'\? Known: "),
    ],
)
def test_a_datapath_that_fails_says_so(transport: str, kind: type[NccError], message: str) -> None:
    env = workers(FluidDatapath, what=spec(stack=HostStack(transport=transport)))
    with pytest.raises(kind, match=message):
        run(env, 4)
    env.close()


def test_workers_load_nothing_heavy_and_do_not_take_ctrl_c() -> None:
    for datapath in (Light, SignalMask):
        with closing(workers(datapath)) as env:
            env.reset()


def test_a_factory_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be sent to a worker"):
        workers(lambda: Mm1Datapath())  # noqa: PLW0108 - a lambda is what is refused


class Single(Mm1Datapath):
    """As ns-3: one at a time in a process."""

    live: ClassVar[set[int]] = set()

    @classmethod
    def taken(cls) -> bool:
        return bool(cls.live)

    def start(self, *args: Any) -> Measurement:
        assert self.live <= {id(self)}
        self.live.add(id(self))
        return super().start(*args)

    def close(self) -> None:
        self.live.discard(id(self))
        super().close()


def test_what_a_process_can_have_once_runs_in_others_besides() -> None:
    one, two, plain = (Racks(spec(rack(periods=4)), kind) for kind in (Single, Single, Mm1Datapath))
    with closing(one), closing(two):
        for episode in range(2):
            first = [env.begin(0, episode) for env in (one, two, plain)]
            np.testing.assert_array_equal(first[0], first[2])
            np.testing.assert_array_equal(first[1], first[2])
            assert len(children()) == 1
            moved = [env.advance(np.full((1, 4), 3e8)) for env in (one, two, plain)]
            np.testing.assert_array_equal(moved[1].obs, moved[2].obs)
        one.close()
        one.begin(0, 0)  # in this process again
        assert len(children()) == 1


def test_errors_of_a_lone_network_are_not_numbered() -> None:
    networks = WorkerNetworks(FluidDatapath, 1)
    with pytest.raises(DatapathError, match="0 of 1 networks are running"):
        networks.step(np.full((1, 4), np.inf))
    scenario = rack()
    with closing(networks):
        networks.start(0, scenario, scenario.flows(1), HostStack(transport="broken"), 1)
        for _ in range(3):
            networks.step(np.full((1, 4), np.inf))
        with pytest.raises(DatapathError, match=r"^the broken transport broke"):
            networks.step(np.full((1, 4), np.inf))


OWN = """
import numpy as np
from ncc.envs.rack import RackBatch
from ncc.harness.networks import InProcesses
from tests.envs.cases import spec
from tests.support.mm1 import Mm1Datapath


class Own(Mm1Datapath):
    pass


if __name__ == "__main__":
    env = RackBatch(spec(), InProcesses(Own), 1, 0, 2)
    env.reset()
    print(env.step(np.full((2, 4), 10)).obs.shape)
    env.close()
"""


def test_a_datapath_of_the_script_itself_reaches_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(OWN)
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=where, check=False)
    assert (done.returncode, done.stdout.count("(2, 4,"), done.stderr) == (0, 1, "")
