# SPDX-License-Identifier: BSD-3-Clause
"""A host's queue leaves a device as it was, and refuses a device whose queue somebody has set up."""

import ctypes
import errno
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux import device, namespaces
from ncc.envs.linux.device import occupied, restore
from ncc.envs.linux.netlink import Route
from ncc.envs.linux.order_program import OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.rack import Rack
from tests.linux.lines import LIMIT_BPS, LINE_BPS, PAIR, TIMEOUT_S, Line, line_of
from tests.linux.rates import check_limit
from tests.support.linux import TRAFFIC, needs


def tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True)


@pytest.fixture
def host() -> Iterator[Line]:
    """A host of its own for each test, since they leave what others set up."""
    with Rack(PAIR.build()) as rack:
        yield line_of(rack)


@needs(*TRAFFIC)
class TestNothingIsLeft:
    def test_close_gives_the_former_queue_back(self, host: Line) -> None:
        before = host.shown("qdisc")
        with host.queue() as (_, made):
            assert " htb 1: root" in host.shown("qdisc")
            assert made.before.startswith("tbf ")
        assert host.shown("qdisc") == before
        made.close()
        with pytest.raises(DatapathError, match=f"queue of {host.device} is closed"):
            made.limit(1e6)

    def test_a_queue_of_a_killed_agent_is_replaced(self, host: Line) -> None:
        with namespaces.inside(host.host):
            left = OrderProgram(TIMEOUT_S)
            abandoned = HostQueue(host.device, LINE_BPS, program=left)
        with host.queue() as (_, made):
            made.limit(LIMIT_BPS)
            with host.sending():
                check_limit(host.count, LIMIT_BPS)
        abandoned.close()
        left.close()

    @pytest.mark.parametrize("theirs", ["tbf rate 50mbit burst 10kb limit 100kb", "htb default 10"])
    def test_a_queue_that_somebody_sets_up_after_a_kill_is_theirs(self, host: Line, theirs: str) -> None:
        with namespaces.inside(host.host):
            program = OrderProgram(TIMEOUT_S)
            abandoned = HostQueue(host.device, LINE_BPS, program=program)
            tc("qdisc", "del", "dev", host.device, "root")
            tc("qdisc", "add", "dev", host.device, "root", "handle", "1:", *theirs.split())
            found = host.shown("qdisc")
            assert occupied(host.device) == f"{theirs.split(maxsplit=1)[0]} 1:"
            assert restore(host.device)
            assert occupied(host.device) == f"{theirs.split(maxsplit=1)[0]} 1:"
        abandoned.close()
        program.close()
        assert host.shown("qdisc") == found

    @pytest.mark.parametrize("killed", [False, True])
    def test_a_clsact_that_was_there_stays(self, host: Line, killed: bool) -> None:
        with namespaces.inside(host.host):
            tc("filter", "del", "dev", host.device, "egress")
            before = host.shown("qdisc")
            assert " clsact " in before
            program = OrderProgram(TIMEOUT_S)
            made = HostQueue(host.device, LINE_BPS, program=program)
            if killed:
                assert restore(host.device, made.before)
            made.close()
            program.close()
        assert host.shown("qdisc") == before


@needs(*TRAFFIC)
class TestRefusals:
    @pytest.mark.parametrize("tcx", [False, True])
    def test_a_program_that_decides_before_ours_could_keep_a_limit(self, host: Line, tcx: bool) -> None:
        with namespaces.inside(host.host), closing(Route()) as route:
            index = device.interface_index(host.device)
            program = OrderProgram(TIMEOUT_S)
            if tcx:
                attached = ctypes.CDLL("libbpf.so.1").bpf_prog_attach(program.fd, index, device.TCX_EGRESS, 0)
                if attached == -errno.EINVAL:
                    pytest.skip("linux: the kernel has no tcx (6.6 and later have it)")
                assert attached == 0, f"bpf_prog_attach: {attached}"
            else:
                route.send(device.bpf_filter(index, program.fd, name=b"other", preference=1))
            before = host.shown("qdisc")
            with pytest.raises(
                DatapathError, match=r"has a program of somebody else's \((tc|bpftool) .*: remove it, or"
            ):
                HostQueue(host.device, LINE_BPS, program=program)
            program.close()
        assert host.shown("qdisc") == before

    def test_a_queue_with_classes_cannot_be_put_back(self, host: Line) -> None:
        with namespaces.inside(host.host):
            tc("qdisc", "replace", "dev", host.device, "root", "htb")
            program = OrderProgram(TIMEOUT_S)
            with pytest.raises(DatapathError, match=r"has a queue of kind htb, .*tc qdisc del dev"):
                HostQueue(host.device, LINE_BPS, program=program)
            program.close()
        assert " htb " in host.shown("qdisc")

    def test_a_kernel_without_htb_is_left_as_it_is(self, host: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        made, before = device.qdisc, host.shown("qdisc")
        monkeypatch.setattr(device, "qdisc", lambda index, kind, **rest: made(index, kind.replace("htb", "no"), **rest))
        program = OrderProgram(TIMEOUT_S)
        with (
            namespaces.inside(host.host),
            pytest.raises(DatapathError, match=f"refuses the queue of {host.device} .*; `ncc host check` says what is"),
        ):
            HostQueue(host.device, LINE_BPS, program=program)
        program.close()
        assert host.shown("qdisc") == before

    def test_wrong_arguments_are_named(self) -> None:
        with pytest.raises(ConfigError, match=r"must rise from class to class of order known, got \[9000, 8000,"):
            OrderProgram(0.1, params=(("class1_bytes", 9_000),))
        program = OrderProgram(0.1)
        with pytest.raises(ConfigError, match=r"no network interface 'nothing'"):
            HostQueue("nothing", 1e9, program=program)
        program.close()
