# SPDX-License-Identifier: BSD-3-Clause
"""bpf/switch_port.h compiled for the host: its decision combines those of the headers of baselines/."""

import ctypes
import itertools
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.linux import switch
from tests.baselines import ports as headers
from tests.house.files import ROOT

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="linux: no C compiler is installed")
ADMIT = """
int admit(const struct ncc_switch_port *port, const struct ncc_switch_pool *pool, unsigned long long queue_bytes,
          unsigned long long used_bytes, unsigned packet_bytes, int ecn_capable, unsigned long long random)
{
    return ncc_switch_admit(port, pool, queue_bytes, used_bytes, packet_bytes, ecn_capable, random);
}
void integrate(const struct ncc_switch_port *port, struct ncc_switch_stats *stats, unsigned long long then_bytes,
               unsigned long long then_pkts, unsigned long long now_bytes, unsigned long long now_pkts,
               unsigned long long elapsed_ns)
{
    const struct ncc_switch_queue now = {now_bytes, now_pkts, 0, 0};
    ncc_switch_integrate(port, stats, then_bytes, then_pkts, &now, elapsed_ns);
}
"""
U64 = ctypes.c_uint64


def compiled(folder: Path, text: str) -> ctypes.CDLL:
    source, library = folder / "header.c", folder / "header.so"
    source.write_text(f'#include <stddef.h>\n#include "switch_port.h"\n{text}')
    paths = [f"-I{ROOT / 'baselines'}", f"-I{ROOT / 'envs/linux/bpf'}"]
    assert COMPILER is not None
    command = [COMPILER, "-std=c11", "-O1", "-shared", "-fPIC", *paths, str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=600)
    return ctypes.CDLL(str(library))


def test_the_decision_is_that_of_the_headers_put_together(tmp_path: Path) -> None:
    """A packet is dropped by the pool or by its port's own buffer, and marked if any marker says so."""
    admit = compiled(tmp_path, ADMIT).admit
    admit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, U64, U64, ctypes.c_uint, ctypes.c_int, U64]
    draw, seen = random.Random(6), set()
    for pooled, red, shared_red, _ in itertools.product((0, 1), (0, 1), (0, 1), range(400)):
        size, queue, packet = draw.randint(3_000, 50_000), draw.randint(0, 80_000), draw.randint(40, 1500)
        threshold, ecn, chance = draw.choice([0, 10_000, 30_000]), draw.random() < 0.8, draw.getrandbits(64)
        line = (draw.randint(0, 20_000), draw.randint(20_001, 60_000), draw.getrandbits(32))
        pool_line = (draw.randint(0, 50_000), draw.randint(50_001, 100_000), draw.getrandbits(32))
        shared, alpha = 100_000, draw.choice([128, 1024, 8192])
        used = min(shared, max(0, queue - size) + draw.randint(0, 60_000))
        port, pool = np.zeros((), switch.PORT), np.zeros((), switch.POOL)
        port["size_bytes"], port["mark_threshold_bytes"], port["red"] = size, threshold, line if red else (0, 0, 0)
        pool["size_bytes"], pool["alpha"], pool["red"] = shared, alpha, pool_line if shared_red else (0, 0, 0)
        got = admit(port.ctypes.data, pool.ctypes.data if pooled else None, queue, used, packet, ecn, chance)

        said = {headers.step_mark(
            size_bytes=2**62 if pooled else size, mark_threshold_bytes=threshold, queue_bytes=queue,
            packet_bytes=packet, ecn_capable=ecn,
        )}  # fmt: skip
        lines = [(line, queue, chance & 0xFFFFFFFF)] * red
        lines += [(pool_line, used, chance >> 32)] * (shared_red and pooled)  # BCC: RED over the whole pool
        for (low, high, most), length, bits in lines:
            said.add(headers.red(
                min_bytes=low, max_bytes=high, max_prob=most, ecn_capable=ecn, random=bits, queue_bytes=length
            ))  # fmt: skip
        if pooled:
            said.add(headers.dynamic_threshold(
                private_bytes=size, shared_bytes=shared, alpha=alpha, queue_bytes=queue, used_bytes=used,
                packet_bytes=packet,
            ))  # fmt: skip
        expected = max(said)  # DROP over MARK over PASS
        assert got == expected
        seen.add((pooled, got))
    assert len(seen) == 6


def test_a_queue_is_integrated_until_it_is_empty(tmp_path: Path) -> None:
    integrate = compiled(tmp_path, ADMIT).integrate
    integrate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[U64] * 5]
    port, stats = np.zeros((), switch.PORT), np.zeros((), switch.STATS)
    port["rate_bytes_per_s"], port["frame_overhead_bytes"] = 10**9, 100  # a byte takes a nanosecond
    integrate(port.ctypes.data, stats.ctypes.data, 9000, 10, 4500, 5, 5000)  # shrinking all the time
    assert stats["queue_byte_ns"] == 13_500 * 2500
    assert stats["queue_pkt_ns"] == 15 * 2500
    integrate(port.ctypes.data, stats.ctypes.data, 9000, 10, 0, 0, 1_000_000)  # 10,000 bytes with frames, then idle
    assert stats["queue_byte_ns"] == 13_500 * 2500 + 9000 * 5000
    assert stats["queue_pkt_ns"] == 15 * 2500 + 10 * 5000
    integrate(port.ctypes.data, stats.ctypes.data, 0, 0, 0, 0, 1_000_000)
    assert stats["queue_byte_ns"] == 13_500 * 2500 + 9000 * 5000
