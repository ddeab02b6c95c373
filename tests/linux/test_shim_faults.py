# SPDX-License-Identifier: BSD-3-Clause
"""Controllers in the kernel survive senseless values and more connections than slots."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ncc.envs.linux import layout
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from tests.linux.lab import FOR_EVER_S, HOST, MB, lab, registered, reports
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually


@needs(*TRAFFIC)
@pytest.mark.parametrize("window", [0, 2**64 - 1])
def test_values_that_nobody_means_are_survived(window: int, rack: Rack) -> None:
    """A limit of a byte per second leaves a flow a packet every 100 ms; without the limit all flows continue."""
    with lab([4 * MB] * 3, "dctcp", rack=rack) as run:
        assert run.shim is not None
        shim = run.shim
        run.decide(1, most_bytes=1, rate_bytes_per_s=1)
        run.decide(2, most_bytes=2**64 - 1, rate_bytes_per_s=2**64 - 1)
        run.decide(3, most_bytes=2**63, rate_bytes_per_s=2**63)
        shim.hosts["window_bytes"][HOST] = window
        shim.hosts["flows"][HOST] = -(2**62)
        assert eventually(lambda: shim.counters()["clamped"] > 0)
        acks = run.live()["acks"][0]
        assert eventually(lambda: run.live()["acks"][0] - acks >= 3), "a flow gets nothing out"
        shim.hosts["window_bytes"][HOST] = 0
        shim.decisions["generation"] = 0
        assert run.run()
        assert run.done().all()


@contextmanager
def few_slots(*slots: int) -> Iterator[tuple[Shim, Callable[[str, int], None]]]:
    """A shim with only these slots, and a `before` for `lab` that registers the host with that shim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shim, "_free", lambda *_: None)
        shim = registered("dctcp", timeout_s=FOR_EVER_S)
    shim._free(slots)

    def start(address: str, cookie: int) -> None:
        shim.add_host(HOST, address, cookie)
        shim.beat()

    with shim:
        yield shim, start


@needs(*TRAFFIC)
def test_without_a_free_slot_a_flow_runs_unreported_and_is_counted(rack: Rack) -> None:
    with few_slots() as (shim, start), lab([MB], "dctcp", rack=rack, congestion="ncc_dctcp", before=start) as run:
        assert run.run()
        assert run.done().all()
        assert len(reports(shim)[0]) == 0
        assert shim.counters()["unreported"] == shim.counters()["started"] == 1


@needs(*TRAFFIC)
def test_a_last_report_is_read_once_and_then_its_slot_is_used_again(rack: Rack) -> None:
    with few_slots(7) as (shim, start):
        for generation in (1, 2):
            with lab([MB // 4], "dctcp", rack=rack, congestion="ncc_dctcp", before=start) as run:
                assert run.run()
                assert eventually(lambda n=generation: shim.counters()["finished"] >= n)  # type: ignore[misc]
            slots, (row,) = reports(shim)
            assert slots.tolist() == [7]
            assert (row["state"], row["generation"], row["flow"]) == (layout.FINISHED, generation, 1)
            assert row["delivered_bytes"] == MB // 4
            assert len(reports(shim)[0]) == 0
        assert shim.counters()["unreported"] == 0
