# SPDX-License-Identifier: BSD-3-Clause
"""Ray for the time of one run: of its own on this machine, or a cluster that exists already.

Nothing is written to the user's home: Ray's session lies in a folder of the run under the system's temporary one, which
is removed with it; usage statistics are off; RLlib's folder (~/ray_results) is not made; and the token by which Ray's
processes know each other, which Ray would keep in ~/.ray/auth_token, is handed on in the environment.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray

from ncc.agents.rllib.config import require_wheel
from ncc.core.errors import ConfigError

OBJECT_STORE_BYTES = 300 * 2**20
"""Rollouts are a few MB each."""
ATTEMPTS = 3
PAUSE_S = 5.0
"""Between attempts, times their number."""
ANSWER_S = 10.0
"""How long the head of a cluster may take to answer."""
LONGEST_TEMPORARY = 20
"""Characters: a socket's path may have 107 on Linux, and Ray's session takes some 85."""
EXIT_S = 20.0
"""How long Ray's processes may take to go after `ray.shutdown`, before they are killed."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore::DeprecationWarning,ignore::FutureWarning,ignore::UserWarning",
}
"""For this process while Ray starts, and so for all that Ray starts: no report to its makers, no notes to developers of
Ray. Errors are shown."""


@contextmanager
def connected(address: str | None, wheel: str | None, cpus: int) -> Iterator[None]:
    """Ray is there inside; a Ray that was there before is used, and left as it was.

    Args:
        address: of a cluster; None: start one here.
        wheel: path of ncc's wheel for the cluster's workers.
        cpus: what the run's processes need, at least; a Ray of the run's own pretends to have so many.

    Raises:
        ConfigError: the cluster cannot be reached, or Ray does not start in `ATTEMPTS` attempts.
    """
    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)
    handler = signal.getsignal(signal.SIGTERM)
    session = Path(tempfile.mkdtemp(prefix="ncc-ray-", dir=_temporary())) if address is None else None
    with nullcontext() if session is None else _hidden("RAY_ADDRESS"):  # a private Ray is not the one named there
        try:
            with environment(_QUIET):
                if session is None:
                    _join(str(address), wheel)
                else:
                    _start(session, max(cpus, len(os.sched_getaffinity(0))))
            yield
        finally:
            ray.shutdown()
            if signal.getsignal(signal.SIGTERM) is not handler and handler is not None:
                signal.signal(signal.SIGTERM, handler)  # Ray puts its own there
            if session is not None:
                _end_processes(session)
                shutil.rmtree(session, ignore_errors=True)


def _temporary() -> str:
    """The system's temporary folder, or /tmp where its path would be too long for the sockets below."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_TEMPORARY else "/tmp"


def _start(session: Path, cpus: int) -> None:
    """A private Ray. On a busy machine its parts may miss each other's deadlines; then all of it is tried again."""
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # stays: Ray reads it once per process
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(session),
                logging_level=logging.ERROR,
                log_to_driver=True,
            )
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            _end_processes(session)
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if attempt == ATTEMPTS:
                raise ConfigError(
                    f"Ray did not start in {ATTEMPTS} attempts ({reason}); wait until the machine is less loaded, "
                    f"check that {session.parent} has room, or name a cluster: agent.address"
                ) from None
            logging.getLogger(__name__).warning("Ray did not start (%s); trying again", reason)
            time.sleep(PAUSE_S * attempt)
        else:
            return


def _join(address: str, wheel: str | None) -> None:
    runtime_env: dict[str, Any] = {"env_vars": _QUIET}
    if wheel is not None:
        require_wheel(wheel)
        runtime_env["py_modules"] = [str(Path(wheel).resolve())]
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), ANSWER_S).close()
        ray.init(address=address, runtime_env=runtime_env, logging_level=logging.ERROR, log_to_driver=True)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"agent.address: no Ray cluster answers at {address!r} ({reason}); start one with ray start --head, or set "
            "agent.address to null"
        ) from None


def session_processes(session: Path) -> list[int]:
    """Processes of the Ray whose session lies in that folder, by what they were started with."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:  # gone, or another user's
            continue
        if str(session).encode() in told:
            found.append(int(entry.name))
    return found


def _end_processes(session: Path) -> None:
    """Wait for Ray's processes to go; kill those that do not."""
    deadline_s = time.monotonic() + EXIT_S
    while left := session_processes(session):
        if time.monotonic() > deadline_s:
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        time.sleep(0.1)


@contextmanager
def held_stderr() -> Iterator[None]:
    """What this process prints on standard error inside is shown only if it fails.

    Ray's C++ logs there, as an error, that an env runner that is started again needs what this process has.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            file.seek(0)
            sys.stderr.write(file.read().decode(errors="replace"))
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """These environment variables inside, where the user has not set them."""
    ours = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Without this environment variable inside, for this process and for those that it starts."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value
