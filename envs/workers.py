# SPDX-License-Identifier: BSD-3-Clause
"""Several racks, one process each: a `BatchedEnv` that steps simulators in parallel.

Arrays live in anonymous shared memory (a mapping whose file is unlinked before it is used), so nothing is left behind
however a process ends. A pipe per worker carries one byte each way per epoch. A worker that dies closes its pipe, which
is how its death is noticed; so is the parent's.
"""

import multiprocessing
import pickle
from contextlib import closing
from ctypes import c_byte
from dataclasses import dataclass
from math import prod
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError, DatapathError, NccError, WorkerDiedError
from ncc.envs.action import RateTable, check_rack_actions
from ncc.envs.observation import obs_dim
from ncc.envs.rack import RackBatch
from ncc.envs.scales import scales_of
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.harness.batch import ActionArray, ObsArray, Transition
from ncc.harness.processes import end, killed_by, pack_error, quiet_start, unpack_error

_STEP, _RETURNS, _RESET = b"step", b"returns", b"reset"
_DONE, _ERROR = b"d", b"e"
_TRANSITION = ("obs", "reward", "terminated", "truncated", "final_obs")
_JOIN_S = 10.0
"""How long a worker may take over its last epoch before it is terminated."""


class WorkerRacks:
    """Racks of one seed, each in its own spawned process.

    Gives bit for bit what `RackBatch(spec, datapath, seed, rack)` gives for each rack. Usable as a context manager.

    Args:
        spec: what runs and how it is seen.
        datapath: makes a network in the worker; picklable.
        seed: decides the flows, with rack and episode.
        n_racks: processes to start; more than there are cores gains nothing.
        first_rack: number of the first rack; the others follow it.

    Raises:
        ConfigError: a spec, datapath or number of racks that cannot be used.
        WorkerDiedError: from any method; all workers have been stopped then.
    """

    def __init__(
        self, spec: EnvSpec, datapath: DatapathFactory, seed: int, n_racks: int, *, first_rack: int = 0
    ) -> None:
        self._workers: list[tuple[SpawnProcess, Connection]] = []
        if n_racks < 1:
            raise ConfigError(f"n_racks must be at least 1, got {n_racks}")
        try:
            pickle.dumps(datapath)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"the datapath factory cannot be sent to a worker ({error}); use a class or a function of a module"
            ) from None
        RateTable(spec.view.action, spec.view.observation)
        self.n_racks, self.n_agents = n_racks, spec.scenario.n_agents
        self.obs_dim, self.n_actions = obs_dim(spec.view.observation, spec.scenario), spec.view.action.n_actions
        self._names = scales_of(spec.scenario).names
        self._first, self._episodes = first_rack, [0] * n_racks
        shared = _Shared.allocate(n_racks, self.n_agents, self.obs_dim)
        self._arrays = shared.arrays()
        context = multiprocessing.get_context("spawn")
        try:
            with quiet_start():
                for row in range(n_racks):
                    ours, theirs = context.Pipe()
                    setup = _RackSetup(spec, datapath, seed, first_rack + row, row)
                    process = context.Process(target=_work, args=(theirs, shared, setup), daemon=True)
                    self._workers.append((process, ours))
                    process.start()
                    theirs.close()
        except BaseException:
            self.close()
            raise

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every rack at that episode; returns [n_racks, n_agents, obs_dim]."""
        self._exchange(_RESET + episode.to_bytes(8, "big"))
        self._episodes = [episode] * self.n_racks
        return self._arrays["obs"].copy()

    def step(self, actions: ActionArray) -> Transition:
        """One epoch of all racks with action indices [n_racks, n_agents].

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming rack and host; no epoch has run.
        """
        if np.shape(actions) != (self.n_racks, self.n_agents):
            raise ConfigError(f"actions must have shape ({self.n_racks}, {self.n_agents}), got {np.shape(actions)}")
        check_rack_actions(actions, self._names, self.n_actions, self._first)
        self._arrays["actions"][:] = actions
        self._exchange(_STEP)
        out = {name: self._arrays[name].copy() for name in _TRANSITION}
        ended = out["terminated"] | out["truncated"]
        if ended.any():
            self._episodes = [n + bool(end) for n, end in zip(self._episodes, ended, strict=True)]
        return Transition(**out)

    @property
    def episode(self) -> int:
        """The episode that the slowest rack is in."""
        return min(self._episodes)

    def take_returns(self) -> tuple[float, ...]:
        """Mean reward per host and epoch of each episode that ended since the last call, rack by rack."""
        answers = self._exchange(_RETURNS)
        return tuple(value for answer in answers for value in np.frombuffer(answer[1:]).tolist())

    def close(self) -> None:
        """Stop the workers; may be called twice."""
        workers, self._workers = self._workers, []
        for _, pipe in workers:
            pipe.close()  # a worker ends when its pipe does
        end([process for process, _ in workers if process.pid is not None], _JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: bytes) -> list[bytes]:
        """Ask all workers, then hear all; on any failure stop them all."""
        if not self._workers:
            raise DatapathError("the workers have been stopped; make a new WorkerRacks")
        try:
            for row in range(self.n_racks):
                self._send(row, request)
            return [self._receive(row) for row in range(self.n_racks)]
        except BaseException:  # Ctrl-C too: some workers would be an epoch ahead of others
            self.close()
            raise

    def _send(self, row: int, request: bytes) -> None:
        try:
            self._workers[row][1].send_bytes(request)
        except ConnectionError:
            raise self._death(row) from None

    def _receive(self, row: int) -> bytes:
        try:
            answer = self._workers[row][1].recv_bytes()
        except (EOFError, ConnectionError):
            raise self._death(row) from None
        if answer[:1] == _ERROR:
            raise unpack_error(pickle.loads(answer[1:]), f"rack {self._first + row}")
        return answer

    def _death(self, row: int) -> WorkerDiedError:
        process = self._workers[row][0]
        if name := killed_by(process):
            how = f"signal {name}"
        elif process.exitcode is None:
            how = "it closed its pipe and did not exit"
        else:
            how = f"exit status {process.exitcode}"
        return WorkerDiedError(
            f"the worker of rack {self._first + row} died ({how}) and the others were stopped; its last words, if any, "
            "are on standard error; start again, or resume from a checkpoint"
        )


@dataclass(frozen=True)
class _RackSetup:
    """The rack that one worker steps."""

    spec: EnvSpec
    datapath: DatapathFactory
    seed: int
    rack: int
    row: int
    """Of the shared arrays."""


class _Shared:
    """Blocks of anonymous shared memory, and what they hold."""

    def __init__(self, blocks: dict[str, tuple[Any, tuple[int, ...], str]]) -> None:
        self._blocks = blocks

    @classmethod
    def allocate(cls, racks: int, agents: int, obs: int) -> "_Shared":
        layout: dict[str, tuple[tuple[int, ...], str]] = {
            "obs": ((racks, agents, obs), "float32"),
            "final_obs": ((racks, agents, obs), "float32"),
            "reward": ((racks, agents), "float32"),
            "terminated": ((racks,), "bool"),
            "truncated": ((racks,), "bool"),
            "actions": ((racks, agents), "int64"),
        }
        sizes = {name: prod(shape) * np.dtype(dtype).itemsize for name, (shape, dtype) in layout.items()}
        return cls({name: (RawArray(c_byte, sizes[name]), *layout[name]) for name in layout})

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Views of the blocks, in this process."""
        blocks = self._blocks.items()
        return {name: np.frombuffer(block, dtype=dtype).reshape(shape) for name, (block, shape, dtype) in blocks}


def _work(pipe: Connection, shared: _Shared, setup: _RackSetup) -> None:
    """The worker's life: until the pipe closes, do what the parent asks."""
    arrays = {name: array[setup.row : setup.row + 1] for name, array in shared.arrays().items()}
    try:
        with closing(RackBatch(setup.spec, setup.datapath, setup.seed, setup.rack)) as env:
            while True:
                pipe.send_bytes(_DONE + _answer(env, arrays, pipe.recv_bytes()))
    except (EOFError, ConnectionError):
        return  # the parent has closed its end, or is gone
    except NccError as error:
        pipe.send_bytes(_ERROR + pickle.dumps(pack_error(error)))


def _answer(env: RackBatch, arrays: dict[str, npt.NDArray[Any]], request: bytes) -> bytes:
    if request == _STEP:
        transition = env.step(arrays["actions"])
        for name in _TRANSITION:
            arrays[name][:] = getattr(transition, name)
        return b""
    if request == _RETURNS:
        return np.array(env.take_returns()).tobytes()
    arrays["obs"][:] = env.reset(int.from_bytes(request[len(_RESET) :], "big"))
    return b""
