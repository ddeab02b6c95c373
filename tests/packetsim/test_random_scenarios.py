# SPDX-License-Identifier: BSD-3-Clause
"""Random small scenarios on packetsim: no packet is lost from the books, and nothing but the seed decides a run."""

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.baselines.registry import controllers
from ncc.core.errors import ConfigError
from ncc.core.measurement import COLUMNS, Measurement
from ncc.core.scenario import Scenario
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from ncc.harness.networks import networks
from tests.datapaths.runs import engine
from tests.support.scenarios import scenarios

EPOCHS = 12
stacks = st.sampled_from(sorted(controllers())).map(lambda name: HostStack(transport=name))


def limits(scenario: Scenario, seed: int) -> np.ndarray:
    """[EPOCHS, n_agents], the same for the same arguments."""
    rng = np.random.default_rng(seed)
    return rng.choice([1e6, 1e8, 1e9, np.inf], (EPOCHS, scenario.n_agents))


def alone(scenario: Scenario, stack: HostStack, seed: int) -> list[Measurement]:
    """A run of some epochs; the books are checked after each."""
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(seed), stack, seed)
    measured = []
    for row in limits(scenario, seed):
        measured.append(datapath.step(row))
        audit = engine(datapath).audit()
        assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]
        assert audit["dropped"] == datapath.finish().ports.dropped_pkts.sum()
    return measured


@settings(max_examples=20)
@given(scenarios(), stacks, st.integers(1, 4), st.integers(1, 3))
def test_a_batch_of_any_size_gives_what_each_network_gives_alone(
    scenario: Scenario, stack: HostStack, n: int, threads: int
) -> None:
    batch = networks(PacketsimDatapath, n, threads=threads)
    each_alone = [alone(scenario, stack, seed) for seed in range(n)]
    for seed in range(n):
        batch.start(seed, scenario, scenario.flows(seed), stack, seed)
    rows = np.stack([limits(scenario, seed) for seed in range(n)])
    for epoch in range(EPOCHS):
        measured = batch.step(rows[:, epoch])
        for name in (*COLUMNS, "flows_finished"):
            wanted = np.array([getattr(each[epoch], name) for each in each_alone])
            assert np.reshape(getattr(measured, name), wanted.shape).tobytes() == wanted.tobytes(), name
    batch.close()


@given(
    scenarios(),
    st.sampled_from(["start_s", "src", "dst", "size_bytes"]),
    st.one_of(st.floats(allow_nan=False, width=32), st.integers(-(2**62), 2**62).map(float)),
)
def test_a_flow_table_with_any_number_in_it_runs_or_is_refused(scenario: Scenario, column: str, value: float) -> None:
    flows = scenario.flows(1)
    if not len(flows):
        return
    values = getattr(flows, column).copy()
    values[len(values) // 2] = value if column == "start_s" else int(np.clip(value, -(2.0**62), 2.0**62))
    changed = type(flows)(**{f.name: getattr(flows, f.name) for f in fields(flows)} | {column: values})
    datapath = PacketsimDatapath()
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            datapath.start(scenario, changed, HostStack(), 1)
    except ConfigError as error:
        assert str(error).count(". ") == 0  # noqa: PT017 - either outcome is right, this is about the error's
        return
    for row in limits(scenario, 1)[:3]:
        datapath.step(row)
