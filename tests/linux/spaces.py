# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces of a test, without a rack."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


def say(*words: str) -> None:
    """Run a command of `ip`."""
    subprocess.run(["ip", *(part for word in words for part in word.split())], check=True, capture_output=True)


@contextmanager
def spaces(*names: str, lines: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Make network namespaces whose loopback is up, and run commands of `ip`: {0}, {1} are the namespaces' names."""
    from ncc.envs.linux import namespaces

    made = [f"{namespaces.owner()}-{name}" for name in names]
    with ExitStack() as undo:
        for name in made:
            undo.callback(namespaces.remove, name)
            namespaces.create(name)
            say("-n", name, "link set lo up")
        for line in lines:
            say(line.format(*made))
        yield made


def of_killed(name: str) -> str:
    """Name that a run that was killed would have given to a namespace."""
    from ncc.envs.linux import namespaces

    return f"{namespaces.PREFIX}-{1 << 22}-1-{namespaces.owner().split('-')[-1]}-0-0-{name}"


def wire(one: str, other: str) -> str:
    """Command of `ip` for a line between the first two namespaces, by the names of its devices."""
    return f"link add {one} netns {{0}} type veth peer name {other} netns {{1}}"
