# SPDX-License-Identifier: BSD-3-Clause
"""A simulation as a process of ours, with whatever it starts: all of it ends when we do, however we end.

All that stays in its process group, that is: what calls ``setsid``, as daemons do, is out of reach.
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
"""Characters of its output that an error quotes."""
KILL_S = 5.0
"""How long the group may take to die before it is killed again from here."""

# The keeper leads a process group of its own: it starts the command, says its status, and kills the group. Its watcher
# also kills it when the pipe from us closes, which the kernel does for us even if we are killed. A death signal for
# the command alone would not do: `./ns3 run` is a script whose child is the simulation.
_KEEPER = """
"$@" </dev/null {alive}<&- {ended}>&- &
child=$!
{{ read -r _ <&{alive}; kill -KILL 0; }} {ended}>&- &
wait "$child"
echo $? >&{ended}
kill -KILL 0
"""


def split_command(command: str | Sequence[str], folder: Path, where: str) -> tuple[str, ...]:
    """The words of a command as a shell would read them.

    Raises:
        ConfigError: it is empty, has an open quote, or names no program that can be run from `folder`.
    """
    try:
        words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise ConfigError(f"{where} cannot be read ({error}): {command!r}") from None
    if not words:
        raise ConfigError(f"{where} is empty; name the program that is the simulation, with its arguments")
    program = str(folder.absolute() / words[0]) if "/" in words[0] else words[0]
    if shutil.which(program) is None:
        raise ConfigError(f"{where} names {words[0]!r}, which is no program that can be run from {folder.absolute()}")
    return words


class SimulationProcess:
    """A running command, in a process group of its own.

    Args:
        words: the command.
        folder: where it runs.
        output: let it write to our terminal; else its last words are kept for `last_words`.

    Raises:
        ConfigError: it cannot be started.
    """

    def __init__(self, words: Sequence[str], folder: Path, *, output: bool = False) -> None:
        self._told: int | None = None
        self._output = None if output else tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        alive, self._alive = os.pipe()
        self.ended_fd, ended = os.pipe()
        """Readable once the command has ended."""
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
        """Of the keeper, which is the number of the process group as well."""
        return self._keeper.pid

    def how_it_ended(self) -> str:
        """In words; waits for the end."""
        if self._told is None:
            self._told = int(os.read(self.ended_fd, 16) or b"137")
        number = self._told - 128
        if number in set(signal.Signals):
            return f"was killed by {signal.Signals(number).name}"
        return f"ended by itself with status {self._told}"

    def last_words(self) -> str:
        """The end of what it wrote, on one line; empty if that was nothing, or went to the terminal."""
        if self._output is None or self._output.closed:
            return ""
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - LAST_WORDS))
        return " ".join(self._output.read().decode(errors="replace").split())

    def end(self, grace_s: float) -> None:
        """Leave none of it behind: wait up to `grace_s` for its own end, then kill it; may be called twice."""
        if self._alive < 0:
            return
        self._gone(grace_s)
        os.close(self._alive)  # the watcher kills what is left of the group
        self._alive = -1
        if not self._gone(KILL_S):
            os.killpg(self.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
            self._keeper.wait()
        os.close(self.ended_fd)
        if self._output is not None:
            self._output.close()

    def _gone(self, patience_s: float) -> bool:
        """Whether the keeper, who kills all others first, ends within that time."""
        try:
            self._keeper.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True
