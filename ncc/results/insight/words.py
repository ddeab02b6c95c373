# SPDX-License-Identifier: BSD-3-Clause
"""Meanings of the entries of an observation, for the axes of figures."""

import numpy as np

from ncc.envs.observation import FEATURES, ObservationSpec


def whose(entry: str) -> str:
    """Subject of an entry: `own`, `uplink`, `neighbours` or `network`."""
    kind = FEATURES[entry]["kind"] if entry in FEATURES else "neighbour"
    own = dict.fromkeys(("own", "own_before", "busy_for", "wasted"), "own")
    return {**own, "uplink": "uplink", "uplink_age": "uplink", "constant": "network"}.get(kind, "neighbours")


def meaning(spec: ObservationSpec, entry: str) -> tuple[str, tuple[tuple[float, str], ...]]:
    """Meaning of an entry with its unit, and the positions of round values in the scale of `ObservationSpec`."""
    name = entry.removeprefix("neighbours' ")
    theirs = "neighbours' " if entry != name else ""
    logarithmic = {
        "rtt": ("RTT above the path's own [in units of it]", spec.rtt_scale),
        "wait": ("waiting of queued flows, summed [periods]", spec.wait_scale),
        "mean_wait": ("mean waiting of queued flows [periods]", spec.wait_scale),
        "mean_wait mean": ("neighbours' waiting, their mean [periods]", spec.wait_scale),
        "mean_wait max": ("neighbours' waiting, the longest [periods]", spec.wait_scale),
        "queued_bytes": ("own backlog [periods at link rate]", spec.backlog_scale),
        "queued_bytes mean": ("neighbours' backlog, their mean [periods at link rate]", spec.backlog_scale),
        "queued_bytes max": ("neighbours' backlog, the largest [periods at link rate]", spec.backlog_scale),
        "next bytes": ("left of own shortest flow [periods at link rate]", spec.backlog_scale),
        "queued_flows": ("own flows with something to send", spec.flows_scale),
    }
    if name in logarithmic:
        words, scale = logarithmic[name]
        if theirs and name == "queued_bytes":
            words = "backlog [periods at link rate]"
        rounds = (0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
        at = tuple((float(np.log1p(value) / np.log1p(scale)), f"{value:g}") for value in rounds)
        return theirs + words, at
    counted = {
        "bytes ahead": ("what goes before own next flow [periods of the uplink]", 4),
        "bytes just ahead": ("what goes before own next flow, at most 3 [periods of the uplink]", 2),
        "hosts before": ("hosts that go before, at most 8", 4),
        "busy for": ("busy for [periods, at most 20]", 10),
        "busy hosts": ("other busy hosts, at most 24", 8),
        "hosts alike": ("others with about as much left, at most 24", 8),
        "hosts begun": ("others that have just begun, at most 24", 8),
        "begin together": ("others that begin with one that begins, at most 24", 8),
    }
    if name in counted:
        words, one = counted[name]
        return words, tuple((count / one, f"{count}") for count in (0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24))
    linear = {
        "rate_limit": "own rate limit [share of link rate]",
        "goodput": "own goodput [share of link rate]",
        "uplink throughput": "the uplink's throughput [share of line rate]",
        "uplink queue": "the uplink's queue [logarithmic; 1: buffer full]",
        "room after shorter": "what neighbours with shorter flows leave of the uplink [share of link rate]",
        "room after much shorter": "what neighbours with much shorter flows leave of the uplink [share of link rate]",
        "share among alike": "share of what they leave among hosts with flows alike [share of link rate]",
        "throughput": "throughput [share of link rate]",
        "throughput mean": "neighbours' throughput, their mean [share of link rate]",
        "throughput max": "neighbours' throughput, the largest [share of link rate]",
        "busy share": "neighbours with something to send [share of them]",
        "fair share": "fair share of the uplink [share of link rate]",
        "tuned limit": "limit of the tuned formula [share of link rate]",
    }
    return theirs + linear.get(name, name), ()
