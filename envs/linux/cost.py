# SPDX-License-Identifier: BSD-3-Clause
"""Processor time per ACK of our controllers in the kernel, beside the kernel's own CUBIC.

The kernel's clock for BPF programs measures all of them while a few bulk flows share a bottleneck of 200 Mbit/s. For
ours it measures the program that handles an ACK, with its reports, limits and pacing; for the kernel's CUBIC its two
functions (`cubictcp_acked`, `cubictcp_cong_avoid`), called by programs that do nothing else. The cost of measuring is
known from an empty program and subtracted. Two things are not counted: work that the kernel does for its own CUBIC only
(window reduction in recovery, pacing rate), and entering a program, which takes some nanoseconds each time.
"""

from dataclasses import dataclass

from ncc.core.errors import DatapathError
from ncc.envs.linux import machine, objects
from ncc.envs.linux.extension import extension
from ncc.envs.linux.libbpf import BPF_F_LINK, Object, Program, statistics
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.trial import check_seconds, trial

WARM_S = 0.2
KERNEL_CUBIC = "kernel_cubic"
EMPTY = "kernel_cubic_nothing"


@dataclass(frozen=True)
class Cost:
    """Cost of one congestion control."""

    name: str
    acks: int
    ns_per_ack: float
    """Nanoseconds per ACK, without the time that measuring takes."""


def measure(controllers: tuple[str, ...], seconds: float) -> tuple[list[Cost], float]:
    """Measure the kernel's CUBIC, then each of `controllers`, over `seconds` of traffic each.

    Returns:
        The costs, and the nanoseconds that measuring itself takes per run of a program.

    Raises:
        ConfigError: `seconds` is not above 0, or too long.
        UnknownNameError: no such controller was built.
        DatapathError: the machine cannot run it (see `ncc host check`), is busy with another run, or has no CUBIC.
    """
    check_seconds(seconds)
    for name in controllers:
        objects.controller_object(name)
    with machine.alone():
        return _measure(controllers, seconds)


def _measure(controllers: tuple[str, ...], seconds: float) -> tuple[list[Cost], float]:
    with Object(objects.bpf_object(KERNEL_CUBIC)) as loaded:
        loaded.map(KERNEL_CUBIC).add_flags(BPF_F_LINK)
        loaded.load()
        loaded.register(KERNEL_CUBIC)
        programs = {program.name: program for program in loaded.programs()}
        _send("ncc_k_cubic", seconds, ecn=True)
        counting_ns = _mean_ns(programs[EMPTY])
        parts = [programs[f"kernel_cubic_{part}"] for part in ("cong_avoid", "pkts_acked")]
        costs = [_cost("kernel's cubic", parts, _runs(parts[1]), counting_ns)]  # the empty one runs at receivers too
    for name in controllers:
        with Shim(name, timeout_s=seconds + 10) as shim:
            shim.beat()
            _send(shim.name, seconds, ecn=bool(extension().ecn(name)))
            control = shim.programs()["shim_cong_control"]
            costs.append(_cost(name, [control], _runs(control), counting_ns))
    return costs, counting_ns


def _send(congestion: str, seconds: float, *, ecn: bool) -> None:
    with trial(congestion, WARM_S + seconds, ecn=ecn) as wait:
        wait(WARM_S)
        with statistics():
            wait(seconds)


def _runs(program: Program) -> int:
    runs = program.facts()["run_cnt"]
    if not runs:
        raise DatapathError(f"Program {program.name} did not run once: measure for longer.")
    return runs


def _mean_ns(program: Program) -> float:
    return program.facts()["run_time_ns"] / _runs(program)


def _cost(name: str, programs: list[Program], acks: int, counting_ns: float) -> Cost:
    """Sum the time of programs that run at most once per ACK, and divide it by the number of ACKs."""
    total = sum(program.facts()["run_time_ns"] - counting_ns * program.facts()["run_cnt"] for program in programs)
    return Cost(name, acks, max(total / acks, 0.0))
