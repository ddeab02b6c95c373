# SPDX-License-Identifier: BSD-3-Clause
"""The table of features (features.yaml) with the numbers of a scenario, as the extension `_observation` takes it."""

import math
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.signals import names
from ncc.core.units import BITS_PER_BYTE
from ncc.envs.observation.spec import COLUMN_LOW, HIGH, TABLE, ObservationSpec, entries, tuned_constants
from ncc.envs.scales import Scales, scales_of
from ncc.harness.oracles import ALIKE, SLACK_PERIODS

CONTEXT_SCALE = 100.0
"""Value of the constants `period` and `buffer` that is observed as 1."""
ALONE = ("own", "uplink", "neighbour", "age", "uplink_age")
"""Kinds of features that need no sums over the neighbours."""
COLUMNS: dict[str, dict[str, Any]] = TABLE["columns"]
SIGNALS = tuple(dict.fromkeys(name for c in COLUMNS.values() for name in (c["signal"], c.get("over")) if name))
"""Signals of a measurement that are observed."""


def _of_uplink(column: str) -> bool:
    return COLUMNS[column]["signal"] in names("uplink")


def tables_of(spec: ObservationSpec, scenario: Scenario) -> dict[str, Any]:
    """Return the parameters of an observer of a scenario's hosts, by their names in tables.h."""
    scales = scales_of(scenario)
    n, near = scales.neighbours.shape
    areas = len(scales.uplink_rate_bps)
    sizes = [areas if _of_uplink(name) else n for name in COLUMNS]
    first = dict(zip(COLUMNS, [0, *np.cumsum(sizes)[:-1].tolist()], strict=True))
    uplink = [name for name in COLUMNS if _of_uplink(name)]
    shared: list[str] = TABLE["shared"]
    constants = _constants(scenario, scales)
    rows = [
        _entry(each.feature, each.neighbour, first=first, shared=shared, uplink=uplink, constants=list(constants))
        for each in entries(spec, near)
    ]
    lying = np.isin(np.array(scales.names), list(scenario.sharing_lying))
    own_bps = scales.link_rate_bps
    return {
        "n": n,
        "neighbours": near,
        "size": sum(sizes),
        "delay": scenario.sharing_delay_periods,
        "ceiling": spec.ceiling,
        "columns": [
            [
                SIGNALS.index(c["signal"]),
                SIGNALS.index(c["over"]) if "over" in c else -1,
                first[name],
                size,
                "scale" in c,
            ]
            for (name, c), size in zip(COLUMNS.items(), sizes, strict=True)
        ],
        "entries": rows,
        **_vectors(spec, scenario, scales, sizes),
        "area": scales.area,
        "near": scales.neighbours,
        "lies": lying,
        "uplink_frac": (scales.uplink_capacity_bps[scales.area] / own_bps).astype(np.float32),
        "links": (own_bps[scales.neighbours] / own_bps[:, None]).astype(np.float32),
        "constants": list(constants.values()),
        "shared": [first[name] for name in shared],
        "uplink": [first[name] for name in uplink],
        "shared_flows": shared.index("flows"),
        "shared_throughput": shared.index("throughput"),
        "shared_limit": shared.index("limit"),
        "next": first["next"],
        "flows": first["flows"],
        "queue": uplink.index("uplink_queue"),
        **_queue(scenario, scales),
        **tuned_constants(),
        "used": uplink.index("uplink_throughput"),
        "pooled": any(kind not in ALONE for kind, *_ in rows),
        "ranked": spec.neighbours in ("ranked", "ordered"),
        "ordered": spec.neighbours == "ordered",
        "gain_of_next": math.log1p(spec.backlog_scale),
        "ranks_alike": ALIKE,
        "ranks_slack": SLACK_PERIODS,
    }


def _entry(
    feature: Any, neighbour: int, *, first: dict[str, int], shared: list[str], uplink: list[str], constants: list[str]
) -> tuple[Any, ...]:
    """Return the kind of a feature and the places of its numbers, `Where` of kinds.h."""
    kind, of = feature["kind"], feature.get("of")
    places = (shared, uplink, constants)
    of_hosts = [name for name in first if name not in uplink]
    takes = {"constant": constants, "uplink": uplink, **dict.fromkeys(("own", "own_before"), of_hosts)}
    takes |= dict.fromkeys(("neighbour", "mean", "max"), shared)
    known = takes.get(kind, [*first, *constants])
    if of not in known and (of is not None or kind in takes):
        raise UnknownNameError(f"'of' of a feature of kind {kind} in features.yaml", str(of), known)
    return kind, first.get(of, 0), *(names.index(of) if of in names else 0 for names in places), neighbour


def _vectors(spec: ObservationSpec, scenario: Scenario, scales: Scales, sizes: list[int]) -> dict[str, FloatArray]:
    """Return the bounds and factors that turn numbers of a measurement into columns, [size] each."""
    units = {
        "one": 1.0,
        "link_rate": 1 / scales.link_rate_bps,
        "uplink_rate": 1 / scales.uplink_rate_bps,
        "base_rtt": 1 / scales.base_rtt_s,
        "period": 1 / scenario.period_s,
        "link_bytes": BITS_PER_BYTE / (scales.link_rate_bps * scenario.period_s),  # bytes of a period
        "mtu": 1 / scenario.transport.mtu_bytes,
    }
    shown_as_1: dict[str, Any] = {
        "wait_scale": spec.wait_scale,
        "rtt_scale": spec.rtt_scale,
        "backlog_scale": spec.backlog_scale,
        "flows_scale": spec.flows_scale,
        "buffer": scales.uplink_buffer_bytes / scenario.transport.mtu_bytes,
    }
    names = ("cut", "unit", "offset", "least", "most", "gain")
    vectors: dict[str, list[FloatArray]] = {name: [] for name in names}
    for (column_name, column), size in zip(COLUMNS.items(), sizes, strict=True):
        cut = scales.link_rate_bps if column.get("most") == "link_rate_bps" else np.inf
        gain = 1 / np.log1p(_chosen(column_name, "scale", shown_as_1, size)) if "scale" in column else 1.0
        offset = 1.0 - column.get("minus", 0) if "scale" in column else 0.0
        # Values are clipped before the logarithm, so that it stays finite: an RTT may be below the base RTT.
        least, most = COLUMN_LOW, HIGH
        if "scale" in column:
            least, most = np.exp(COLUMN_LOW / gain), np.exp(HIGH / gain)
        unit = _chosen(column_name, "unit", units, size)
        for name, row in zip(names, (cut, unit, offset, least, most, gain), strict=True):
            vectors[name].append(np.broadcast_to(np.asarray(row, np.float64), size))
    return {name: np.concatenate(rows) for name, rows in vectors.items()}


def _chosen(column: str, key: str, choices: dict[str, Any], size: int) -> Any:
    """Return the value of a column's unit or scale: one number, or one for each of its hosts or uplinks.

    Raises:
        ConfigError: it is unknown, or one of hosts in an uplink's column, or the reverse.
    """
    fitting = {name: value for name, value in choices.items() if np.size(value) in (1, size)}
    chosen = str(COLUMNS[column].get(key))
    if chosen not in fitting:
        raise ConfigError(
            f"Column {column!r} of features.yaml is one of {'uplinks' if _of_uplink(column) else 'hosts'}: its {key} "
            f"must be one of {', '.join(sorted(fitting))}, got {chosen!r}"
        )
    return fitting[chosen]


def _queue(scenario: Scenario, scales: Scales) -> dict[str, Any]:
    """Return the factors [n_agents] that turn the number of an uplink's queue into periods of the uplink's rate."""
    mtu, buffer = scenario.transport.mtu_bytes, scales.uplink_buffer_bytes[scales.area]
    in_a_period = scales.uplink_rate_bps[scales.area] * scenario.period_s / BITS_PER_BYTE
    return {
        "queue_log": np.log1p(buffer / mtu).astype(np.float32),
        "queue_unit": (mtu / in_a_period).astype(np.float32),
    }


def _constants(scenario: Scenario, scales: Scales) -> dict[str, Any]:
    """Return the values of the features of kind `constant`, [n_agents] each."""
    peers, uplink_bps = scales.neighbours.shape[1] + 1, scales.uplink_rate_bps[scales.area]
    share = np.minimum(scales.uplink_capacity_bps[scales.area] / (peers * scales.link_rate_bps), 1)
    buffered = scales.uplink_buffer_bytes[scales.area] * BITS_PER_BYTE / (uplink_bps * scenario.period_s)
    constants = {
        "static_share": np.maximum(1 + np.log(share) / math.log(CONTEXT_SCALE), COLUMN_LOW),
        "period": np.log1p(scenario.period_s / scales.base_rtt_s) / math.log1p(CONTEXT_SCALE),
        "buffer": np.log1p(buffered) / math.log1p(CONTEXT_SCALE),
    }
    return {name: values.astype(np.float32) for name, values in constants.items()}
