# SPDX-License-Identifier: BSD-3-Clause
"""The decision of a port on a packet, as both simulators take it: `envs/native/discipline.h`, built for this test."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ncc.baselines
import ncc.envs
from ncc.baselines._baselines import DROP, MARK, PASS

SHIM = r"""
#include "discipline.h"
using namespace ncc;
extern "C" {
Pool *new_pool(int64_t size_bytes, double alpha, int64_t red_min, int64_t red_max, double prob)
{
    return new Pool(PoolSpec{size_bytes, alpha, red_min, red_max, prob});
}
void free_pool(Pool *p) { delete p; }
uint64_t used_bytes(const Pool *p) { return p->used_bytes; }
Discipline *new_port(int64_t buffer, int64_t threshold, int64_t red_min, int64_t red_max, double prob, Pool *p,
                     uint64_t seed)
{
    QueueSpec queue;
    queue.buffer_bytes = buffer;
    queue.threshold_bytes = threshold;
    queue.red_min_bytes = red_min;
    queue.red_max_bytes = red_max;
    queue.red_max_prob = prob;
    return new Discipline(queue, p, seed);
}
void free_port(Discipline *d) { delete d; }
int admit(Discipline *d, uint64_t queue, uint32_t packet, int ecn) { return d->Admit(queue, packet, ecn != 0); }
void changed(Discipline *d, uint64_t before, uint64_t after) { d->Changed(before, after); }
uint64_t port_seed(uint64_t seed, uint32_t port) { return PortSeed(seed, port); }
}
"""

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("discipline")
    (folder / "shim.cc").write_text(SHIM)
    includes = [f"-I{Path(package.__file__).parent}" for package in (ncc.baselines, ncc.envs) if package.__file__]
    includes[1] += "/native"
    command = ["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", *includes]
    subprocess.run([*command, "-shared", "-fPIC", folder / "shim.cc", "-o", folder / "shim.so"], check=True)
    library = ctypes.CDLL(str(folder / "shim.so"))
    pointer, whole, large, real, number = (
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double, ctypes.c_int,
    )  # fmt: skip
    marks = (whole, whole, real)
    for name, result, *arguments in (
        ("new_pool", pointer, whole, real, *marks),
        ("free_pool", None, pointer),
        ("used_bytes", large, pointer),
        ("new_port", pointer, whole, whole, *marks, pointer, large),
        ("free_port", None, pointer),
        ("admit", number, pointer, large, ctypes.c_uint32, number),
        ("changed", None, pointer, large, large),
        ("port_seed", large, large, ctypes.c_uint32),
    ):
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    return library


Red = tuple[int, int, float]


class Pool:
    def __init__(self, native: ctypes.CDLL, size_bytes: int, alpha: float, red: Red = (0, 0, 0.0)) -> None:
        self._native, self.handle = native, native.new_pool(size_bytes, alpha, *red)

    @property
    def used_bytes(self) -> int:
        return int(self._native.used_bytes(self.handle))

    def __del__(self) -> None:
        self._native.free_pool(self.handle)


class Port:
    """A queue in front of its discipline."""

    def __init__(
        self,
        native: ctypes.CDLL,
        *,
        buffer: int = 100_000,
        threshold: int = 0,
        red: Red = (0, 0, 0.0),
        pool: Pool | None = None,
        seed: int = 1,
    ) -> None:
        self._native, self._pool, self.queue_bytes = native, pool, 0
        self.handle = native.new_port(buffer, threshold, *red, pool.handle if pool else None, seed)

    def ask(self, queue_bytes: int, packet_bytes: int = 1500, *, ecn_capable: bool = True) -> int:
        return int(self._native.admit(self.handle, queue_bytes, packet_bytes, ecn_capable))

    def join(self, packet_bytes: int) -> bool:
        if self.ask(self.queue_bytes, packet_bytes) == DROP:
            return False
        self.leave(-packet_bytes)
        return True

    def leave(self, packet_bytes: int) -> None:
        after = self.queue_bytes - packet_bytes
        self._native.changed(self.handle, self.queue_bytes, after)
        self.queue_bytes = after

    def __del__(self) -> None:
        self._native.free_port(self.handle)


def test_ports_of_a_run_draw_apart(native: ctypes.CDLL) -> None:
    seeds = [native.port_seed(run, port) for run in range(20) for port in range(100)]
    assert len(set(seeds)) == len(seeds)
    ports = [Port(native, red=(0, 30_000, 0.5), seed=seed) for seed in seeds[:2]]
    drawn = [[port.ask(20_000) for _ in range(200)] for port in ports]
    assert drawn[0] != drawn[1]
    again = Port(native, red=(0, 30_000, 0.5), seed=seeds[0])
    assert drawn[0] == [again.ask(20_000) for _ in range(200)]


def test_a_packet_is_marked_if_either_marker_says_so(native: ctypes.CDLL) -> None:
    late = Port(native, threshold=50_000, red=(10_000, 20_000, 0.0))
    assert [late.ask(queue) for queue in (9_999, 19_999, 20_000, 50_001)] == [PASS, PASS, MARK, MARK]
    early = Port(native, threshold=5_000, red=(10_000, 20_000, 0.0))
    assert [early.ask(queue) for queue in (5_000, 5_001, 15_000)] == [PASS, MARK, MARK]
    assert early.ask(98_501) == DROP


def test_a_shared_port_grows_beyond_its_own_buffer_and_still_marks(native: ctypes.CDLL) -> None:
    pool = Pool(native, 90_000, 2.0)
    port, other = (Port(native, buffer=10_000, threshold=30_000, pool=pool) for _ in range(2))
    while port.join(1000):
        pass
    assert (port.queue_bytes, pool.used_bytes) == (70_000, 60_000)  # 10 + 2/3 of 90 KB
    assert port.ask(30_001) == MARK
    while other.join(1000):
        pass
    assert (other.queue_bytes, pool.used_bytes) == (30_000, 80_000)  # dropped once it holds 2 x the 10 KB that are left
    while port.queue_bytes:
        port.leave(1000)
    assert pool.used_bytes == 20_000


def test_a_pool_marks_by_how_full_it_is_whichever_port_asks(native: ctypes.CDLL) -> None:
    """BCC: the port that fills the pool and one that holds next to nothing are marked alike; a fresh queue too."""
    pool = Pool(native, 100_000, 8.0, red=(40_000, 60_000, 0.0))
    busy, idle = (Port(native, buffer=10_000, threshold=90_000, pool=pool) for _ in range(2))
    verdicts = []
    while pool.used_bytes < 70_000:
        verdicts.append((pool.used_bytes, busy.ask(busy.queue_bytes, 1000), idle.ask(0, 1000)))
        assert busy.join(1000)
    assert all(own == other == (MARK if used >= 60_000 else PASS) for used, own, other in verdicts)
    assert {own for _, own, _ in verdicts} == {PASS, MARK}
    assert idle.ask(0, 1000, ecn_capable=False) == PASS
    busy.leave(20_000)
    assert busy.ask(busy.queue_bytes, 1000) == PASS


@given(
    st.floats(1 / 1024, 1024),
    st.integers(1, 300_000),
    st.lists(st.integers(0, 60_000), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(64, 9000), st.booleans()), max_size=150),
)
def test_a_pool_counts_what_its_queues_take_and_never_overflows(
    native: ctypes.CDLL, alpha: float, size_bytes: int, buffers: list[int], moves: list[tuple[int, int, bool]]
) -> None:
    pool = Pool(native, size_bytes, alpha)
    ports = [Port(native, buffer=buffer, pool=pool) for buffer in buffers]
    for i, packet_bytes, joins in moves:
        port = ports[i % len(ports)]
        if joins:
            port.join(packet_bytes)
        else:
            port.leave(min(packet_bytes, port.queue_bytes))
        taken = sum(max(port.queue_bytes - buffer, 0) for port, buffer in zip(ports, buffers, strict=True))
        assert pool.used_bytes == taken <= size_bytes
