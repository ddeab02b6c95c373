# SPDX-License-Identifier: BSD-3-Clause
"""Ray for the duration of one run: a private one on this machine, or an existing cluster.

Ray's session lies in a temporary folder that is removed with the run; usage statistics are off; and the token that Ray
would keep in ~/.ray/auth_token is passed in the environment.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import ray

from ncc.core.errors import ConfigError
from ncc.harness.workers import await_end

OBJECT_STORE_BYTES = 300 * 2**20
"""Size of the object store in bytes; rollouts are a few MB each."""
ATTEMPTS = 3
PAUSE_S = 5.0
"""Seconds between attempts, multiplied by the attempt's number."""
ANSWER_S = 10.0
"""Seconds that the head of a cluster gets to answer."""
LONGEST_TEMPORARY = 20
"""Longest temporary path in characters: a socket's path may have 107 on Linux, and Ray's session takes about 85."""
EXIT_S = 20.0
"""Seconds that Ray's processes get to exit after `ray.shutdown` before they are killed."""
REMOVER = 'read -r folder; read -r over && exit; sleep 5; rm -rf "$folder"'
"""Shell commands that read the path of a folder from a pipe, and remove the folder if the pipe closes without a second
line. That happens when the process that wrote the path is killed; Ray's processes die then too. The path must not be an
argument of the shell, because every process with it in its arguments counts as one of Ray's."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
    "PYTHONWARNINGS": "ignore::DeprecationWarning,ignore::FutureWarning,ignore::UserWarning",
}
"""Environment variables set while Ray starts, inherited by its processes: no usage reports, no hints to developers of
Ray, no workers before they are needed, and workers of normal priority, Ray's own being nice 15. Errors are shown."""


@contextmanager
def connected(address: str | None, cpus: int) -> Iterator[None]:
    """Connect to Ray for the duration of the context; a Ray that was connected before is used and kept.

    Args:
        address: address of a cluster; None: start one here.
        cpus: CPUs that the run's processes need at least; a private Ray claims to have that many.

    Raises:
        ConfigError: the cluster cannot be reached, or Ray does not start in `ATTEMPTS` attempts.
    """
    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _session() if address is None else nullcontext() as session:
            try:
                with environment(_QUIET):
                    if session is None:
                        _join(str(address))
                    else:
                        _start(session, max(cpus, len(os.sched_getaffinity(0))))
                yield
            finally:
                ray.shutdown()
    finally:
        if signal.getsignal(signal.SIGTERM) is not handler and handler is not None:
            signal.signal(signal.SIGTERM, handler)  # Ray installs its own handler


@contextmanager
def _session() -> Iterator[Path]:
    """A folder for Ray's session. It is removed when Ray's processes have exited, even if this process is killed."""
    folder = Path(_temporary()) / f"ncc-ray-{secrets.token_hex(4)}"
    with subprocess.Popen(["/bin/sh", "-c", REMOVER], stdin=subprocess.PIPE, start_new_session=True) as remover:
        assert remover.stdin is not None
        remover.stdin.write(f"{folder}\n".encode())
        remover.stdin.flush()
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _end_processes(folder)
            shutil.rmtree(folder, ignore_errors=True)
            remover.communicate(b"over\n")


def _temporary() -> str:
    """The system's temporary folder, or /tmp if its path is too long for Ray's sockets."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_TEMPORARY else "/tmp"


def _start(session: Path, cpus: int) -> None:
    """Start a private Ray, in several attempts: on a busy machine its parts may miss each other's deadlines."""
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # kept, because Ray reads it once per process
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
        except Exception as error:  # noqa: BLE001 - Ray reports a late node by a bare Exception
            ray.shutdown()
            _end_processes(session)
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if attempt == ATTEMPTS:
                raise ConfigError(
                    f"Ray did not start in {ATTEMPTS} attempts ({reason}); wait until the machine is less loaded, "
                    f"check that {session.parent} has room, or name a cluster (address)"
                ) from None
            logging.getLogger(__name__).warning("Ray did not start (%s); trying again", reason)
            time.sleep(PAUSE_S * attempt)
        else:
            return


def _join(address: str) -> None:
    runtime_env = {"env_vars": _QUIET}
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), ANSWER_S).close()
        ray.init(address=address, runtime_env=runtime_env, logging_level=logging.ERROR, log_to_driver=True)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"no Ray cluster answers at {address!r} ({reason}); start one with ray start --head, set "
            "RAY_AUTH_MODE=token if it asks for one, or set address to null"
        ) from None


def _end_processes(session: Path) -> None:
    """Wait for the processes of the Ray whose session lies in that folder; kill those that do not exit."""
    await_end(lambda described: str(session).encode() in described, EXIT_S)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set these environment variables in the context, except those that the user has set."""
    unset = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)
