# SPDX-License-Identifier: BSD-3-Clause
"""A simulation as a child process. It ends with its own children when this process ends, for whatever reason.

This holds for processes that stay in its process group, not for daemons, which call ``setsid``.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ncc.core.errors import ConfigError

LAST_WORDS = 600
"""Number of characters of the output that an error quotes."""
KILL_S = 5.0
"""Seconds that the process group may take to die before it is killed again from here."""

# The keeper leads a process group of its own: it starts the command, reports its exit status, and kills the group. Its
# watcher also kills the group when the pipe from us closes, which happens even if we are killed. A death signal for the
# command alone would not be enough: `./ns3 run` is a script whose child is the simulation.
_KEEPER = """
"$@" </dev/null {alive}<&- {ended}>&- &
child=$!
{{ read -r _ <&{alive}; kill -KILL 0; }} {ended}>&- &
wait "$child"
echo $? >&{ended}
kill -KILL 0
"""


def split_command(command: str | Sequence[str], folder: Path, where: str) -> tuple[str, ...]:
    """Split a command into words as a shell does."""
    try:
        words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise ConfigError(f"{where} cannot be read ({error}): {command!r}") from None
    if not words:
        raise ConfigError(f"{where} is empty; name the program that is the simulation, with its arguments")
    program = str(folder.absolute() / words[0]) if "/" in words[0] else words[0]
    if shutil.which(program) is None:
        raise ConfigError(
            f"{where} names {words[0]!r}, which is not a program that can be run from {folder.absolute()}"
        )
    return words


class SimulationProcess:
    """A running command in a process group of its own."""

    def __init__(self, words: Sequence[str], folder: Path, *, output: bool = False) -> None:
        self._status: int | None = None
        self._output = None if output else tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        alive, self._alive = os.pipe()
        self.ended_fd, ended = os.pipe()
        """Descriptor that becomes readable when the command has ended."""
        try:
            self._keeper = subprocess.Popen(
                ["bash", "-c", _KEEPER.format(alive=alive, ended=ended), "ncc-simulation", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT if self._output else None,
                pass_fds=(alive, ended),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._alive)
            os.close(self.ended_fd)
            raise ConfigError(f"{shlex.join(words)} cannot be started in {folder} ({error.strerror})") from None
        finally:
            os.close(alive)
            os.close(ended)

    @property
    def pid(self) -> int:
        """Process id of the keeper, which is the id of the process group too."""
        return self._keeper.pid

    def how_it_ended(self) -> str:
        """Wait for the end of the command and describe it in words."""
        if self._status is None:
            self._status = int(os.read(self.ended_fd, 16) or b"137")
        number = self._status - 128
        if number in set(signal.Signals):
            return f"was killed by {signal.Signals(number).name}"
        return f"ended by itself with status {self._status}"

    def last_words(self) -> str:
        """Return the end of the command's output on one line; empty if there is none, or if it went to the terminal."""
        if self._output is None or self._output.closed:
            return ""
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - LAST_WORDS))
        return " ".join(self._output.read().decode(errors="replace").split())

    def end(self, grace_s: float) -> None:
        """Wait up to `grace_s` for the command to end by itself, then kill the whole group; may be called twice."""
        if self._alive < 0:
            return
        self._gone(grace_s)
        os.close(self._alive)  # the watcher kills the rest of the group
        self._alive = -1
        if not self._gone(KILL_S):
            os.killpg(self.pid, signal.SIGKILL)  # not waited for yet, so the id is still its own
            self._keeper.wait()
        os.close(self.ended_fd)
        if self._output is not None:
            self._output.close()

    def _gone(self, patience_s: float) -> bool:
        """Wait for the keeper, which kills all others first; return False if it does not end in time."""
        try:
            self._keeper.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True
