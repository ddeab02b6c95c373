# SPDX-License-Identifier: BSD-3-Clause
"""Invalid options: one sentence, a status other than 0, and nothing changed on the host."""

import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.envs.observation import ObservationSpec, check_on_hosts, names_of
from ncc.envs.observation.spec import TABLE
from ncc.host.__main__ import main, parser
from ncc.host.neighbourhood import limiter_of, outside_of
from ncc.host.plan import _speed_bps, narrowed, planned
from ncc.policies import RateBounds
from ncc.policies.export import ExportSpec, export
from ncc.policies.file import PolicyFile, load_policy_file, packed
from tests.host.agents import AVAILABLE, ROOT
from tests.host.policies import untrained
from tests.support.linux import KERNEL, needs

SYSCTLS = ("tcp_congestion_control", "tcp_ecn")
NETWORK = ["--link-rate", "1e9", "--uplink-rate", "1e9", "--seconds", "0.1", "--outside-training"]
HOST = ["--interface", "lo", *NETWORK]
LOCAL = ["--address", "127.0.0.1"]
PEER = ["--peers", "127.0.0.2", "--key", "KEY"]


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """No test here leaves anything on the machine."""
    before = [Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in SYSCTLS] + [AVAILABLE.read_text()]
    yield
    assert [Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in SYSCTLS] + [AVAILABLE.read_text()] == before


@pytest.fixture
def paths(key: str, tmp_path: Path) -> dict[str, str]:
    """Files that arguments name as KEY and ABSENT."""
    return {"KEY": key, "ABSENT": str(tmp_path / "absent")}


def refused(arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *arguments]) == status
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--interface", "nosuch0", *NETWORK], "there is no network interface 'nosuch0'"),
        (NETWORK, "the following arguments are required: --interface"),
        ([*HOST, "--address", "300.0.0.1"], "300.0.0.1"),
        ([*HOST, "--address", "[fd00::1]"], "'[fd00::1]' is no valid address: write four numbers of IPv4"),
        ([*HOST, "--address", "fd00::99"], "no connection begins at fd00::99 here"),
        ([*HOST, "--address", "ff02::1"], "'ff02::1' is not the address of one host"),
        ([*HOST, "--address", "fe80::1"], "'fe80::1' is an address of one link only"),
        ([*HOST, *LOCAL, "--peers", "[::2]", "--key", "KEY"], "127.0.0.1:947 and [::2]:947 cannot reach each other"),
        ([*HOST, *PEER, "--uplink", "[::2]"], "127.0.0.1:947 and [::2]:947 cannot reach each other"),
        ([*HOST, "--address", "192.0.2.99"], "no connection begins at 192.0.2.99 here"),
        ([*HOST, "--address", "0.0.0.0"], "'0.0.0.0' is not the address of one host"),
        ([*HOST, *LOCAL, "--netns", "ABSENT"], "absent cannot be opened"),
        ([*HOST, *LOCAL, "--netns", "/proc/self/status"], "Network namespace /proc/self/status cannot be entered"),
        ([*HOST, *LOCAL, "--netns", "a", "--netns", "b"], "one for all addresses, or one for each in turn"),
        ([*HOST, "--netns", "a"], "--netns is of an --address: name one for all"),
        ([*HOST, *LOCAL, *LOCAL], "1 interfaces and 2 addresses were named: each host has one of either"),
        ([*HOST, "--interface", "lo"], "an address of its own"),
        (["--interface", "lo", "--uplink-rate", "1e9"], "say --link-rate"),
        ([*HOST, "--peers", "127.0.0.2"], "name the file of the agents' keys"),
        ([*HOST, "--peers", "somewhere", "--key", "KEY"], "somewhere"),
        ([*HOST, "--peers", "127.0.0.2", "--key", "ABSENT"], "key file"),
        ([*HOST, "--max-rate-frac", "1.5"], "--max-rate-frac must be `float` <= 1.0, got 1.5"),
        ([*HOST, "--floor", "0"], "--floor must be `float` > 0.0, got 0"),
        ([*HOST, "--max-rate-frac", "0.005"], "at most 0.005 of the link's rate, and --f"),
        ([*HOST, "--digest", "sha256:ab"], "--digest must be sha256: and 64 hexadecimal"),
        ([*HOST, "--period", "0.1"], "period_s must be one that the policy was trained with"),
        ([*HOST, "--base-rtt", "1e-6"], "--base-rtt must be at least"),
        ([*HOST, "--heartbeat-s", "0.001"], "at least two periods"),
        ([*HOST, "--uplink-rate", "nan"], "error: --uplink-rate must be"),
        ([*HOST, "--peers", "127.0.0.2*256", "--key", "KEY"], "at most 256 hosts, got 257"),
        ([*HOST, "--receivers", "2999", *PEER], "--receivers must be `int` >= 3000, got 2999"),
        ([*HOST, "--receivers", "100k", *PEER], "--receivers must be `int`, got 100k"),
        ([*HOST, "--receivers", "100000"], "--receivers is about flows between this host and its --peers: name them"),
        (
            [*HOST, "--receivers", "100000", *PEER, "--dry-run"],
            "--receivers holds flows of this network namespace back",
        ),
        (
            [*HOST, "--receivers", "100000", "--peers", "127.0.0.2*2", "--key", "KEY"],
            "127.0.0.2:947 speaks for several",
        ),
        ([*HOST, "--hold-off-s", "inf"], "--hold-off-s must be"),
        ([*HOST, "--name", "No Name"], "A congestion control's name must be"),
        ([*HOST, "--metrics", "9472"], "--metrics must end in .prom, as node_exporter reads no other file, got 9472"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)
def test_arguments_that_cannot_be_are_refused(
    arguments: list[str], says: str, policy_path: Path, paths: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused([str(policy_path), *(paths.get(text, text) for text in arguments)], 2, says, capsys)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        (
            ["--link-rate", "1e9", "--uplink-rate", "1e9"],
            "the number of hosts in a neighbourhood is 1, and training met 4",
        ),
        (["--link-rate", "1e11", "--uplink-rate", "1e11"], "the rate of a host's link is 100 Gbit/s, and training met"),
        (["--link-rate", "1e9", "--uplink-rate", "1e7"], "the uplink's rate over a host's is 0.01, and training met"),
        (
            ["--link-rate", "1e9", "--uplink-rate", "1e9"],
            "hosts know the backlog of their flows, and training met their sizes",
        ),
    ],
)
def test_a_network_outside_of_the_training_needs_consent(
    network: list[str], says: str, policy_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(policy_path), "--interface", "lo", *network, "--seconds", "0.1"]
    refused(arguments, 2, says, capsys)
    refused(arguments, 2, "say --outside-training to start all the same", capsys)


def test_an_interface_without_an_address_takes_one_by_name(
    policy_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ncc.host.addresses._addresses", lambda *_: iter(()))
    arguments = [str(policy_path), "--interface", "lo", *NETWORK]
    refused(arguments, 2, "lo has no address: give it one, or name the host's, --address", capsys)
    found = planned(parser().parse_args(["run", *arguments, "--address", "127.0.0.1"]))
    assert found.addresses == ["127.0.0.1"]


def test_an_unknown_command_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uplnk"]) == 2
    assert "Unknown command 'uplnk'. Did you mean 'uplink'? Known: check, " in capsys.readouterr().err


def test_the_rate_of_an_interface_that_has_gone_is_not_known() -> None:
    """As after a renaming, when an agent reads its options again."""
    with pytest.raises(ConfigError, match="say --link-rate"):
        _speed_bps("gone")


def test_what_the_system_refuses_is_said_in_a_sentence(
    key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr("ncc.envs.linux.netlink.socket.socket", Mock(side_effect=refused))
    assert main(["uplink", "lo", "--listen", "127.0.0.1", "--agents", "127.0.0.2", "--key", key]) == 1
    assert capsys.readouterr().err.startswith("error: the system refuses: [Errno 24] Too many open files")


@pytest.mark.attack("n1")
def test_a_port_in_use_is_named_and_may_be_free_later(
    policy_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any user can take the port while an agent starts again: that is no mistake of the options."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        arguments = [str(policy_path), *HOST]
        refused([*arguments, "--peers", "127.0.0.2", "--key", key, "--port", port], 1, port, capsys)


def test_a_policy_that_does_not_fit_is_refused(
    policy_file: PolicyFile, policy_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each, damaged, gone, other = (tmp_path / f"{name}.ncc" for name in ("each", "damaged", "gone", "other"))
    fallback = policy_file.header.fallback
    nope = fallback.replace(stack=fallback.stack.replace(transport="nope", params=()))
    gone.write_bytes(packed(policy_file.header.replace(fallback=nope), policy_file.policy))
    cubic = fallback.replace(stack=fallback.stack.replace(transport="cubic", params=()))
    other.write_bytes(packed(policy_file.header.replace(fallback=cubic), policy_file.policy))
    each.write_bytes(untrained(policy_file, ObservationSpec(neighbours="each"), 6 + 3 * 3 + 2)[0])
    damaged.write_bytes(policy_path.read_bytes()[:-100])
    refused([str(each), *HOST], 2, "takes exactly 3 neighbours and this neighbourhood has 0", capsys)
    refused([str(gone), *HOST], 2, "policy 'untrained' is not to be had here: Unknown transport 'nope'", capsys)
    refused([str(other), *HOST], 2, "the fallback of policy 'untrained' runs cubic and the policy dctcp", capsys)
    refused([str(damaged), *HOST], 1, "damaged.ncc", capsys)
    refused([str(tmp_path / "none.ncc"), *HOST], 1, "none.ncc", capsys)


@pytest.mark.parametrize(
    ("column", "takes", "feature", "lacks"),
    [
        ("uplink_queue", {"signal": "uplink_queue_mean_bytes"}, "uplink queue", "are not sent"),
        ("uplink_throughput", {"over": "uplink_marked_pkts"}, "uplink throughput", "are not sent"),
        ("throughput", {"signal": "goodput_bps"}, "throughput mean", "are not sent"),
        ("goodput", {"signal": "rtt_samples"}, "goodput", "do not measure"),
    ],
)
def test_a_feature_of_what_hosts_are_not_told_is_refused_by_name(
    *,
    column: str,
    takes: dict[str, str],
    feature: str,
    lacks: str,
    policy_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In training and on simulators it is a feature like any other; on hosts it would be 0."""
    file = load_policy_file(policy_path)
    monkeypatch.setitem(TABLE["columns"], column, {**TABLE["columns"][column], **takes})
    (signal,) = takes.values()
    says = f"Feature '{feature}' of features.yaml takes the signal '{signal}', which agents on hosts {lacks}: train a "
    refused([str(policy_path), *HOST], 2, says, capsys)
    with pytest.raises(ConfigError, match=says):
        limiter_of(file)
    with pytest.raises(ConfigError, match=says):
        export(ExportSpec(policy="ncc", out=str(tmp_path / "policy.ncc")))
    seen = file.header.observation
    check_on_hosts(
        seen.replace(leave_out=tuple(n for n in names_of(seen, 0) if TABLE["features"][n].get("of") == column))
    )


@pytest.mark.parametrize("neighbours", ["none", "each", "pooled", "ranked", "ordered"])
def test_hosts_are_told_what_our_views_have(neighbours: Literal["none", "each", "pooled", "ranked", "ordered"]) -> None:
    check_on_hosts(ObservationSpec(neighbours=neighbours, ages=True))


def test_a_residual_does_not_start_where_it_is_not_trusted(
    learned_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    network = ["--link-rate", "1e9", "--uplink-rate", "1e9", "--uplink-buffer", "100000"]
    one = [str(learned_path), "--interface", "lo", *network]
    two = [*one, "--peers", "127.0.0.2", "--key", key, "--period", "1e-4"]
    for arguments, says in (
        ([*one, "--knows", "sizes"], "is 1, and its policy is trusted with 2 to 32"),
        ([*two, "--uplink-rate", "2e9", "--knows", "sizes"], "is 2, and its policy is trusted with 0.05 to 1"),
        (two, "know the backlog of their flows, and its policy is trusted with their sizes; correct"),
    ):
        refused(arguments, 2, says, capsys)
    plan = planned(parser().parse_args(["run", *two, "--outside-training"]))
    assert "backlog" in outside_of(plan.file, plan.network)
    plan = planned(parser().parse_args(["run", *two, "--knows", "sizes"]))
    assert outside_of(plan.file, plan.network) == ""


@pytest.mark.attack("8")
def test_a_policy_that_is_not_the_pinned_one_does_not_run(
    policy_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = ["--digest", f"sha256:{'0' * 64}"]
    refused([str(policy_path), *HOST, *pinned], 1, "is not the file of --digest", capsys)


@pytest.mark.attack("8")
def test_no_policy_file_limits_a_host_below_the_operator_s_floor(policy_file: PolicyFile) -> None:
    """A file that nearly stops a host, within what a file may say."""
    header = policy_file.header.replace(limits=RateBounds(min_rate_frac=1e-4, max_rate_frac=1.0))
    least = replace(policy_file, header=header)
    for words, floor in ((), 0.01), (["--floor", "0.05"], 0.05), (["--floor", "1e-6"], 1e-4):
        bounds = narrowed(least, parser().parse_args(["run", "x", *HOST, *words]))
        assert bounds.hold(np.full(1, 1.0), np.full(1, np.inf), np.full(1, 1e9)).tolist() == [floor * 1e9]
    half = replace(
        policy_file, header=policy_file.header.replace(limits=RateBounds(min_rate_frac=0.01, max_rate_frac=0.5))
    )
    with pytest.raises(ConfigError, match=r"--max-rate-frac 0\.6 is wider than the policy file's 0\.5"):
        narrowed(half, parser().parse_args(["run", "x", *HOST, "--max-rate-frac", "0.6"]))


@needs("root", *KERNEL)
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed (package util-linux)")
def test_without_privileges_nothing_happens(policy_path: Path) -> None:
    command = [sys.executable, "-m", "ncc.host", "run", str(policy_path), *HOST]
    without = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    done = subprocess.run([*without, *command, "--default"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: The agent of a host needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN and lacks all of them: run it as root "
        "(sudo), or by the systemd unit.\n"
    )
