# SPDX-License-Identifier: BSD-3-Clause
"""Facts that the page takes from the package when it is built: settings, controllers, the policy, and drawn flows."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from ncc.agents.policy import load_policy, packaged_policy
from ncc.baselines.registry import CHOOSES_NEXT, PAUSE_BYTES, PAUSES, SYMMETRIC, Ecn, controllers, named, program_needs
from ncc.core.bcc import LAMBDA_ONE, Bcc
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.units import NS_PER_S
from ncc.core.value import from_dict
from ncc.envs.action import ActionSpec, rate_map
from ncc.envs.observation import ObservationSpec
from ncc.envs.observation.columns import COLUMNS, SIGNALS, tables_of
from ncc.envs.observation.spec import COLUMN_LOW, HIGH, TABLE, entries, tuned_constants
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness import receivers
from ncc.harness.controller import Controller, Formula, PolicyLimit
from ncc.metrics.catalogue import CATALOGUE
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory

CONTENDERS = ("ncc", "local_both", "local", "dctcp", "cubic", "bbr", "vegas", "gemini", "newreno", "dcqcn", "annulus")
"""Controllers that the page offers, in this order."""
PROGRAMS = ("codel", "fq_codel", "rwndq", "qcn", "trim", "pfc")
"""Programs of switches that the page offers. The others need several paths, or tags that no contender sets."""
SEEDS = 10
"""Seeds that the page offers, from 0 on."""
DRAWN_FLOWS = 250
"""Flows of web search that are drawn for each seed."""
REFERENCE_BPS = 4e9
"""Rate of the uplink for which they are drawn, with a load of 1; the page stretches their starts."""
_SCALARS = (
    "mtu_bytes", "frame_overhead_bytes", "initial_window_pkts", "delayed_ack_pkts", "send_buffer_bytes",
    "receive_buffer_bytes", "dup_ack_pkts", "handshake", "idle_restart", "sack", "limited_transmit", "modern",
    "timer_slack_ns", "timer_tick_ns", "min_rto_ns", "initial_rto_ns", "delayed_ack_ns", "bucket_bytes",
    "small_queue_bytes", "first_write_pkts",
)  # fmt: skip
"""Fields of `Spec` that the page's settings do not change."""


def facts() -> dict[str, Any]:
    """Return the facts as plain data for JSON."""
    scenario = from_dict(Scenario, _STAR, "scenario")
    factory = LimiterFactory(None)
    chosen = [factory.resolved(load_controller(name), scenario) for name in CONTENDERS]
    spec = PacketsimDatapath.spec_of(scenario, scenario.flows(0), chosen[3].stack, 0)
    return {
        "spec": {name: getattr(spec, name) for name in _SCALARS},
        "drain_s": scenario.drain_s,
        "contenders": [*(_contender(controller) for controller in chosen), _mine(_contender(chosen[3]))],
        "switches": _switches(),
        "pause_bytes": PAUSE_BYTES,
        "policy": _policy(scenario, chosen[0]),
        "receivers": {
            "full_frac": receivers.FULL_FRAC,
            "full_gain": receivers.FULL_GAIN,
            "settled_periods": receivers.SETTLED_PERIODS,
            "behind_bytes": receivers.BEHIND_BYTES,
            "crowd": receivers.CROWD,
            "deep_periods": receivers.DEEP_PERIODS,
        },
        "seeds": [str(derive_seed(seed, "eval", "datapath") % 2**63) for seed in range(SEEDS)],
        "drawn": {"rate_bps": REFERENCE_BPS, "flows": [_drawn(seed) for seed in range(SEEDS)]},
        "metrics": {m.key: {"scale": m.scale, "digits": m.digits, "unit": m.unit} for m in CATALOGUE.values()},
    }


_PORTS: Mapping[str, Any] = {"delay_s": 1e-5, "buffer_bytes": 100_000, "mark_threshold_bytes": 30_000}
_STAR: Mapping[str, Any] = {
    "name": "star",
    "topology": {"kind": "many_to_one", "senders": 8, "rate_bps": 1e9, **_PORTS},
    "workload": [
        [
            "answers",
            {
                "kind": "queries",
                "fan_in": 8,
                "response_bytes": 8000,
                "interval_s": 0.01,
                "sources": "senders",
                "destinations": "receiver",
            },
        ]
    ],
    "duration_s": 0.01,
    "period_s": 1e-4,
}


def _contender(controller: Controller) -> dict[str, Any]:
    stack, limit = controller.stack, controller.limit
    known = controllers()[stack.transport].params
    plain: dict[str, Any] = {"kind": "none"}
    if isinstance(limit, PolicyLimit):
        plain = {"kind": "policy"}
    elif isinstance(limit, Formula) and limit.to_dict()["kind"] != "none":
        plain = limit.to_dict()
    return {
        "name": controller.name,
        "stack": {
            "transport": stack.transport,
            "params": [list(pair) for pair in stack.params],
            "order": stack.order,
            "order_params": [list(pair) for pair in stack.order_params],
            "hold": stack.hold,
            "answer_frac": stack.answer_frac,
        },
        "marks": controllers()[stack.transport].ecn is Ecn.DCTCP,
        "limit": plain,
        "receivers": None if controller.receivers is None else controller.receivers.constants(),
        "params": [
            {
                "name": one.name,
                "default": dict(stack.params).get(one.name, one.default),
                "min": one.min,
                "max": one.max,
                "help": one.help,
            }
            for one in known
            if plain["kind"] != "policy"  # a policy's stack is the one that it was trained on
        ],
    }


def _mine(dctcp: dict[str, Any]) -> dict[str, Any]:
    """Return the contender that the page's user writes in JavaScript (envs/packetsim/web/mine.h)."""
    knob = {"name": "knob", "default": 500, "min": 0, "max": 10**6, "help": "a number that the code has as e.knob"}
    own = {"name": "mine", "stack": dctcp["stack"] | {"transport": "mine"}, "marks": False, "params": [knob]}
    return dctcp | own


def _switches() -> list[dict[str, Any]]:
    """Return what switches can do beyond marking above a threshold: BCC, and programs."""
    bcc = Bcc(rtt_s=1.0)
    rows = (
        ("rtt_ns", 0, 0, 10**8, "ns: round-trip time without queues; 0: the network's"),
        ("lambda_permille", round(bcc.lambda_bdp * LAMBDA_ONE), 0, 10**6, "1/1000 of C RTT that a busy port needs"),
        ("spread_ns", round(bcc.spread_s * NS_PER_S), 1, 10**9, "ns: spread h of the thresholds, Kmax - Kmin = C N h"),
        ("max_prob_permille", round(bcc.max_prob_frac * 1000), 0, 1000, "1/1000: marking probability at Kmax"),
    )
    fields, programs = ("name", "default", "min", "max", "help"), named("program of a switch")
    return [
        {"name": "plain", "params": []},
        {"name": "bcc", "params": [dict(zip(fields, row, strict=True)) for row in rows]},
        *(
            {
                "name": name,
                "params": [{field: getattr(one, field) for field in fields} for one in programs[name]],
                "program": True,
                "symmetric": bool(program_needs()[name] & SYMMETRIC),
                "orders": bool(program_needs()[name] & CHOOSES_NEXT),
                "pauses": bool(program_needs()[name] & PAUSES),
            }
            for name in PROGRAMS
        ),
    ]


def _policy(scenario: Scenario, controller: Controller) -> dict[str, Any]:
    assert isinstance(controller.limit, PolicyLimit)
    policy, meta = load_policy(packaged_policy(controller.limit.pretrained))
    observation = from_dict(ObservationSpec, meta["observation"], "observation")
    action = from_dict(ActionSpec, meta["action"], "action")
    rates = rate_map(action, observation)
    rates.reset(scenario)
    tables = tables_of(observation, scenario)
    kept = (
        "delay", "ceiling", "shared_flows", "shared_throughput", "shared_limit", "used", "queue",
        "pooled", "ranked", "ordered", "gain_of_next", "ranks_alike", "ranks_slack", *tuned_constants(),
    )  # fmt: skip
    given = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in rates.parameters.items()
    }
    weights = np.concatenate([part.ravel() for layer in policy.layers for part in layer]).astype("<f4")
    assert action.within is not None
    return {
        "layers": [policy.obs_dim, *(len(bias) for _, bias in policy.layers)],
        "weights": base64.b64encode(weights.tobytes()).decode(),
        "signals": list(SIGNALS),
        "columns": [
            {
                "name": name,
                "signal": SIGNALS.index(column["signal"]),
                "over": SIGNALS.index(column["over"]) if "over" in column else -1,
                "uplink": column["signal"].startswith("uplink_"),
                "unit": column["unit"],
                "cut": "most" in column,
                "minus": column.get("minus", 0),
                "scale": getattr(observation, column["scale"], column["scale"]) if "scale" in column else None,
            }
            for name, column in COLUMNS.items()
        ],
        "entries": [[each.feature["kind"], each.feature.get("of")] for each in entries(observation, 1)],
        "shared": TABLE["shared"],
        "low": COLUMN_LOW,
        "high": HIGH,
        "tables": {name: tables[name] for name in kept},
        "rates": given,
        "within": action.within.to_dict(),
    }


def _drawn(seed: int) -> list[int]:
    """Return flows of web search, four numbers each: start in ns, sender of 64, receiver of 4, bytes."""
    rack = {"kind": "rack", "hosts": 64, "host_rate_bps": 1e9, "uplink_rate_bps": REFERENCE_BPS, **_PORTS}
    search = {"kind": "poisson", "distribution": "websearch", "load_frac": 0.999, "sources": "hosts"}
    search |= {"destinations": "remotes", "link": "tor->core"}
    plain = {"name": "rack", "topology": rack, "workload": [["search", search]], "duration_s": 2.0}
    scenario = from_dict(Scenario, plain, "rack")
    flows, groups = scenario.flows(derive_seed(seed, "eval", "flows")), scenario.network().group
    places = [np.array(groups(name)) for name in ("hosts", "remotes")]
    columns = (
        np.rint(flows.start_s * 1e9), np.searchsorted(places[0], flows.src), np.searchsorted(places[1], flows.dst),
        flows.size_bytes,
    )  # fmt: skip
    rows: list[int] = np.stack(columns, 1)[:DRAWN_FLOWS].astype(np.int64).ravel().tolist()
    return rows
