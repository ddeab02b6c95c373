# SPDX-License-Identifier: BSD-3-Clause
"""Test of the machine that counts how often the kernel reads a value that a BPF callback did not return.

Some kernels do so now and then (a few times in ten thousand calls on Linux 6.18 in a virtual machine), and a window
taken from such a value may be anything. The shim depends on no such value; this test shows how often other programs
would be hit.
"""

from dataclasses import dataclass

from ncc.core.errors import DatapathError
from ncc.envs.linux import layout, machine, objects
from ncc.envs.linux.libbpf import BPF_F_LINK, Object

MARK_BYTES = 15_000
"""Marking threshold of the bottleneck's queue: small, so that every round trip meets congestion."""


@dataclass(frozen=True)
class Callbacks:
    """Result of the test: numbers of calls and answers."""

    acks: int
    run: int
    """Runs of the callback."""
    right: int
    """Answers that arrived as the callback gave them."""
    skipped: int
    """Wrong answers of calls in which the callback had not run."""
    garbled: int
    """Wrong answers of calls in which the callback had run."""
    last_wrong: int
    """Value of the last wrong answer."""
    recursion_misses: int
    """Runs that the kernel left out because the program was running on that processor already."""

    @property
    def wrong(self) -> int:
        """Number of wrong answers."""
        return self.skipped + self.garbled

    def sentence(self) -> str:
        """Describe the result in one sentence."""
        asked = self.right + self.wrong
        return (
            f"Of {asked} answers of a callback {self.wrong} arrived as something else ({self.skipped} times it had not "
            f"run, {self.garbled} times it had; the last was {self.last_wrong}), in {self.acks} ACKs."
        )


def count_callbacks(seconds: float) -> Callbacks:
    """Send real traffic through network namespaces for `seconds` and count the callback's answers.

    Raises:
        ConfigError: `seconds` is not above 0, or too long.
        DatapathError: the machine cannot run the test (see `ncc host check`) or is busy with another run, or the
            callback was never called.
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
