# SPDX-License-Identifier: BSD-3-Clause
"""RTTs measured wrongly: what controllers are given, and what stays true."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import NS_PER_S
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.ns3.plain import run_plain
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Simulator, Window, engine, fixed, flow, run, same_records

X_S = 2e-4
FLOWS = [flow(f"s{i}", f"r{i}", 6_000_000, i * 1e-3) for i in range(3)]


def scenario(noise_s: float) -> Scenario:
    """Three flows that queue, are marked and lose."""
    topology = Dumbbell(pairs=3, host_rate_bps=2e9, buffer_bytes=150_000, mark_threshold_bytes=60_000)
    return fixed(topology, *FLOWS, transport=Transport(recovery="classic", rtt_noise_max_s=noise_s))


def heard_ns(simulator: Simulator, noise_s: float, seed: int = 1) -> np.ndarray:
    """The last RTT sample that the controller was given, every 10 us; one flow, with the same packets anyway."""
    transport = Transport(recovery="classic", rtt_noise_max_s=noise_s)
    what = fixed(Dumbbell(pairs=1), flow("s0", "r0", 3_000_000), transport=transport, period_s=1e-5)
    samples = []
    with Window(simulator, what, seed=seed, show=1) as window:
        for _ in range(4000):
            window.run(1)
            samples.append(engine(window.datapath).sender_window(0)[1])
    given = np.array(samples)
    return given[(given > 0) & (given < 2**32 - 1)]  # neither before the first sample nor after the end


def test_a_controller_hears_of_every_sample_with_up_to_so_much_more(simulator: Simulator) -> None:
    true = heard_ns(simulator, 0.0)
    added = (heard_ns(simulator, X_S) - true) / (X_S * NS_PER_S)
    assert len(added) > 1000
    assert added.min() >= 0
    assert added.max() <= 1
    # Uniform: mean 1/2, deviation 1/sqrt(12); there are some 1000 samples, each seen for several epochs.
    assert added.mean() == pytest.approx(0.5, abs=0.05)
    assert added.std() == pytest.approx(12**-0.5, abs=0.03)
    assert len(np.unique(added)) > 200


def test_both_simulators_add_the_same_and_another_seed_another() -> None:
    ours, theirs = (heard_ns(each, X_S) for each in (PacketsimDatapath, Ns3Datapath))
    np.testing.assert_array_equal(ours, theirs)
    assert (ours != heard_ns(PacketsimDatapath, X_S, seed=2)).mean() > 0.99


def test_records_keep_the_truth(simulator: Simulator) -> None:
    """CUBIC without HyStart is deaf to RTTs: its packets, timers and recorded RTTs are the same under noise."""
    quiet, noisy = (
        run(simulator, scenario(x), HostStack(transport="cubic", params=(("hystart", 0),))) for x in (0.0, 5e-3)
    )
    assert same_records(quiet.records, noisy.records)
    assert quiet.records.flows.retransmitted_pkts.sum() + quiet.records.ports.marked_pkts.sum() > 0


def test_ns3s_own_controls_cannot_be_told() -> None:
    with pytest.raises(ConfigError, match=r"ns3::TcpVegas of ns-3 measures RTTs by itself: transport.rtt_noise_max_s"):
        run(Ns3Datapath, scenario(X_S), "ns3::TcpVegas")
    plain = fixed(
        Dumbbell(pairs=1),
        FLOWS[0],
        transport=Transport(recovery="classic", frame_overhead_bytes=2, rtt_noise_max_s=X_S),
    )
    with pytest.raises(ConfigError, match=r"transport.rtt_noise_max_s must be 0"):
        run_plain(plain, plain.flows(1), "ns3::TcpVegas", 1, stop_s=1)
