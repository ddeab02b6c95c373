# SPDX-License-Identifier: BSD-3-Clause
"""Values that look like a slip, by where they stand."""

import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import FatTree, Rack
from ncc.core.value import doubts, require_plausible
from ncc.core.workload import Poisson


def scenario(topology: Rack | FatTree | None = None, load_frac: float = 0.8, duration_s: float = 0.1) -> Scenario:
    topology = Rack() if topology is None else topology
    destinations = "remotes" if isinstance(topology, Rack) else "hosts"
    traffic = Poisson(distribution="hadoop", load_frac=load_frac, sources="hosts", destinations=destinations)
    return Scenario(name="toy", topology=topology, workload=(("web", traffic),), duration_s=duration_s)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (scenario(load_frac=80, duration_s=0.001), "scenario.workload.web.load_frac is 80, which is 320 Gbit/s, and"),
        (scenario(Rack(delay_s=10)), "scenario.topology.delay_s is 10, where at most 0.5 is usual"),
        (scenario(Rack(host_rate_bps=1e4)), "scenario.topology.host_rate_bps is 10000, where at least 1e+06 is usual"),
        (scenario(duration_s=3000, load_frac=0.001), "scenario.duration_s is 3000, where at most 300 is usual"),
        (
            scenario().replace(transport=Transport(recovery="classic", initial_rto_s=20)),
            "scenario.transport.initial_rto_s is 20, where at most 5 is usual",
        ),
        (
            scenario(Rack(delay_s=0.01)).replace(transport=Transport(recovery="classic", send_buffer_bytes=4_194_304)),
            "scenario.transport.send_buffer_bytes is 4194304, which holds a flow from h0 to r0 to 0.42 of its line, "
            "whatever its controller: 7505310 bytes are under way there, and 10007080 are enough",
        ),
        (
            scenario(Rack(delay_s=0.01)).replace(
                transport=Transport(recovery="classic", receive_buffer_bytes=4_194_304)
            ),
            "scenario.transport.receive_buffer_bytes is 4194304, which holds a flow from h0 to r0 to 0.56 of its line",
        ),
    ],
)
def test_a_slip_is_named_and_taken_once_it_is_confirmed(given: Scenario, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        require_plausible({"scenario": given}, consent=False)
    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith("; if that is meant, add consent=true")
    require_plausible({"scenario": given}, consent=True)


@pytest.mark.parametrize(
    "given",
    [
        scenario(),
        scenario(load_frac=1.5),
        scenario(FatTree(k=8), load_frac=51.2),
        scenario(Rack(delay_s=0.05)),
    ],
)
def test_what_research_does_is_no_slip(given: Scenario) -> None:
    """An overload; the load of one link of a fabric that spreads flows over many; a WAN."""
    assert list(doubts(given, "scenario")) == []


def test_consent_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="consent must be true or false, got 'yes'"):
        require_plausible({}, consent="yes")
