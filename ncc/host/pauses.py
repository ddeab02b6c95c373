# SPDX-License-Identifier: BSD-3-Clause
"""What happens on the deciding core while the decisions stand still: every task, timer and interrupt of a run.

The kernel's tracer records it, in an instance of its own. The loop's timer goes off every period; a *gap* is a time in
which nothing at all was recorded for longer than that: no interrupt was taken, so that no other task of this kernel
can have been what it waited for.
"""

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from ncc.core.errors import DatapathError
from ncc.envs.linux import machine
from ncc.host.deadlines import Swinging, steps
from ncc.host.runs import Preset, contender, lab, watched

FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
_CREATE = 6
"""FSCONFIG_CMD_CREATE."""
INSTANCE = "instances/ncc"
BUFFER_KB = 400_000
EVENTS = (
    *("sched/sched_switch", "sched/sched_waking", "irq/softirq_entry", "irq/softirq_exit", "irq/irq_handler_entry"),
    *("irq/irq_handler_exit", "timer/hrtimer_expire_entry", "timer/hrtimer_expire_exit"),
    *("irq_vectors/local_timer_entry", "irq_vectors/local_timer_exit", "irq_vectors/reschedule_entry"),
    *("irq_vectors/call_function_single_entry", "irq_vectors/call_function_entry"),
)
GAP_S = 1.3e-3
"""A period, and what a decision may take."""
EVERY_S, WITHIN_S = 0.1, 0.016
"""How often a hypervisor may hand out time anew; and a part of that, in which most gaps may begin."""
FACTS = ("periods", "missed_periods", "late_us", "late_periods_s", "waited_s")
LINE = re.compile(r"^\s*(.*)-(\d+)\s+\[\d+\].*?\s(\d+\.\d+): (\w+):")


class Trace:
    """The kernel's tracer, by a file system that is mounted nowhere; what is recorded of one core."""

    def __init__(self, core: int) -> None:
        self._core, self._root = core, _tracefs()
        with suppress(FileNotFoundError):  # what a run left that was killed
            os.rmdir(INSTANCE, dir_fd=self._root)
        os.mkdir(INSTANCE, dir_fd=self._root)
        for name, value in (
            ("trace_clock", "mono"),
            ("tracing_cpumask", f"{1 << core:x}"),
            (f"per_cpu/cpu{core}/buffer_size_kb", str(BUFFER_KB)),
            *((f"events/{event}/enable", "1") for event in EVENTS),
        ):
            self._put(name, value)

    def record(self, *, on: bool) -> None:
        self._put("tracing_on", str(int(on)))

    def lines(self) -> Iterator[str]:
        """What was recorded, oldest first."""
        file = os.open(f"{INSTANCE}/per_cpu/cpu{self._core}/trace", os.O_RDONLY, dir_fd=self._root)
        with os.fdopen(file, errors="replace") as text:
            yield from text

    def close(self) -> None:
        self.record(on=False)
        os.rmdir(INSTANCE, dir_fd=self._root)
        os.close(self._root)

    def _put(self, name: str, value: str) -> None:
        file = os.open(f"{INSTANCE}/{name}", os.O_WRONLY, dir_fd=self._root)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)


def _tracefs() -> int:
    """A descriptor of tracefs.

    Raises:
        DatapathError: the kernel has none, or will not show it.
    """
    call: Callable[..., int] = ctypes.CDLL(None, use_errno=True).syscall
    system = call(FSOPEN, b"tracefs", 0)
    root = -1
    if system >= 0:
        if call(FSCONFIG, system, _CREATE, None, None, 0) == 0:
            root = call(FSMOUNT, system, 0, 0)
        os.close(system)
    if root < 0:
        raise DatapathError(f"The kernel's tracer cannot be had: {os.strerror(ctypes.get_errno())}.")
    return root


@contextmanager
def traced(core: int) -> Iterator[Trace]:
    """A trace, recorded in the block."""
    with ExitStack() as undo:
        trace = Trace(core)
        undo.callback(trace.close)
        trace.record(on=True)
        yield trace


def gaps_of(lines: Iterator[str], begins_s: float, ends_s: float) -> list[tuple[float, float, bool]]:
    """Beginning and length in seconds of each gap between two times, and whether the core was idle."""
    found, last = [], None
    for line in lines:
        if (event := LINE.match(line)) is None:
            continue
        name, at_s = event[1], float(event[3])
        if last is not None and at_s - last[0] > GAP_S and begins_s < last[0] < ends_s:
            found.append((last[0], at_s - last[0], name == "<idle>"))
        last = (at_s, name)
    return found


def pauses(preset: Preset) -> dict[str, Any]:
    """Gaps of the deciding core in runs of the rule that decides anew each period."""
    scenario = lab("lab_many", f"scenario.duration_s={preset.hold_s}")
    (core, *_), rows = machine.split_cores()[0], []
    for seed in range(1, preset.holds + 1):
        with watched() as load, traced(core) as trace:
            begins_s = ends_s = 0.0
            facts: dict[str, Any] = {}
            for datapath in steps(scenario, contender("dctcp"), Swinging(), seed):
                if datapath.facts:  # it has ended
                    facts = {name: datapath.facts[name] for name in FACTS}
                    continue
                ends_s = time.monotonic()
                begins_s = begins_s or ends_s
            trace.record(on=False)
            found = gaps_of(trace.lines(), begins_s, ends_s)
        rows.append({"seed": seed, **facts, **summary(found), "load": load})
    return {"scenario": scenario.name, "gap_s": GAP_S, "every_s": EVERY_S, "within_s": WITHIN_S, "rows": rows}


def summary(gaps: list[tuple[float, float, bool]]) -> dict[str, Any]:
    """Of `gaps_of`: how many, how long, and how many begin in the same part of every `EVERY_S`."""
    phase = np.array([gap[0] % EVERY_S for gap in gaps])
    together = max((int(((phase - at) % EVERY_S < WITHIN_S).sum()) for at in phase), default=0)
    return {
        "gaps": len(gaps),
        "gaps_s": round(sum(gap[1] for gap in gaps), 6),
        "longest_s": round(max((gap[1] for gap in gaps), default=0.0), 6),
        "idle": sum(gap[2] for gap in gaps),
        "together": together,
    }
