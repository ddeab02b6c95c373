# SPDX-License-Identifier: BSD-3-Clause
"""Small scenarios, controllers and factories (picklable) around the fluid datapath."""

from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.units import GBPS
from ncc.harness.controller import Controller, NoLimit, ShareLimit
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import FixedShare, RateLimiter, Unlimited
from ncc.harness.run import Run, eval_flow_seed, run_once
from tests.support.fluid import FluidDatapath


def small_rack(**changes: object) -> Scenario:
    """Four hosts of 1 Gbit/s behind 2 Gbit/s, 20 ms of web-search flows at 60 %."""
    data: dict[str, object] = {
        "name": "small_rack",
        "topology": {"kind": "rack", "hosts": 4, "uplink_rate_bps": 2 * GBPS, "remotes": 2},
        "workload": {
            "web": {
                "kind": "poisson",
                "distribution": "websearch",
                "load_frac": 0.6,
                "sources": "hosts",
                "destinations": "remotes",
            }
        },
        "duration_s": 0.1,
        "drain_s": 1.0,
    }
    return scenario_from_dict({**data, **changes})


def controller(name: str, transport: str = "fluid", *, share: bool = False) -> Controller:
    limit = ShareLimit() if share else NoLimit()
    return Controller(name=name, stack=HostStack(transport=transport), limit=limit)


def make_limiter(controller: Controller, scenario: Scenario) -> RateLimiter:
    return FixedShare() if isinstance(controller.limit, ShareLimit) else Unlimited()


def fluid_run(seed: int = 1, transport: str = "fluid", *, share: bool = False, scenario: Scenario | None = None) -> Run:
    scenario = scenario or small_rack()
    tested = controller("share" if share else transport, transport, share=share)
    limiter = make_limiter(tested, scenario)
    return run_once(FluidDatapath(), scenario, tested, limiter, seed, flow_seed=eval_flow_seed(seed))
