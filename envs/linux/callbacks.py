# SPDX-License-Identifier: BSD-3-Clause
"""A test of the machine: how often the kernel takes something else for what a BPF callback returns.

Some kernels do now and then (a few times in ten thousand calls on Linux 6.18 in a virtual machine), and a window taken
from there may be anything. The shim depends on no such value; this says how often others would be hit.
"""

from dataclasses import dataclass

from ncc.core.errors import DatapathError
from ncc.envs.linux import layout, machine, objects
from ncc.envs.linux.libbpf import BPF_F_LINK, Object

MARK_BYTES = 15_000
"""Of the bottleneck's queue: little, so that congestion is met in every round trip."""


@dataclass(frozen=True)
class Callbacks:
    """What was counted."""

    acks: int
    run: int
    """Times the callback ran."""
    right: int
    """Answers that arrived."""
    skipped: int
    """Answers that were something else, though the callback had not run."""
    garbled: int
    """Answers that were something else, though it had."""
    last_wrong: int
    """The last of them."""
    recursion_misses: int
    """Runs that the kernel left out because the program was running on that processor already."""

    @property
    def wrong(self) -> int:
        """Answers that were something else."""
        return self.skipped + self.garbled

    def sentence(self) -> str:
        """For the terminal."""
        asked = self.right + self.wrong
        return (
            f"Of {asked} answers of a callback {self.wrong} arrived as something else ({self.skipped} times it had not "
            f"run, {self.garbled} times it had; the last was {self.last_wrong}), in {self.acks} ACKs."
        )


def count_callbacks(seconds: float) -> Callbacks:
    """Send real traffic through network namespaces for `seconds` and count.

    Raises:
        ConfigError: `seconds` is not above 0, or too long.
        DatapathError: the machine cannot (`ncc host check`) or has a run, or nothing was asked.
    """
    from ncc.envs.linux.trial import check_seconds, trial

    check_seconds(seconds)
    with machine.alone(), Object(objects.bpf_object("callbacks")) as loaded:
        loaded.map("callbacks").add_flags(BPF_F_LINK)
        loaded.load()
        loaded.register("callbacks")
        counts = loaded.map("counts").view(layout.CALLBACKS)
        with trial("ncc_callbacks", seconds, mark_bytes=MARK_BYTES) as wait:
            wait(seconds)
        misses = sum(program.facts().get("recursion_misses", 0) for program in loaded.programs())
        names = ("acks", "run", "right", "skipped", "garbled", "last_wrong")
        result = Callbacks(**{name: int(counts[name][0]) for name in names}, recursion_misses=misses)
    if not result.run:
        raise DatapathError("The test of callbacks met no congestion, so that nothing was asked: run it for longer.")
    return result
