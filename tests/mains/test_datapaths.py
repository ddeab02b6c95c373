# SPDX-License-Identifier: BSD-3-Clause
"""Datapaths by name, and results of several in one folder."""

import json
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.run.compose import datapath_names, datapaths_from, load_datapath, reference_last
from tests.mains.commands import ncc
from tests.support.linux import needs


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs("objects") if name == "linux" else ()) for name in datapath_names()]
)
def test_what_has_a_configuration_can_be_loaded(name: str) -> None:
    spec = load_datapath(name)
    assert spec.name == name
    assert "dctcp" in spec.load()().transports()


@pytest.mark.parametrize("plain", [{"target": "ncc.envs.ns3.datapath:DATAPATH"}, ["ns3"], "ns3", None])
def test_a_datapath_has_a_name(plain: object) -> None:
    with pytest.raises(ConfigError, match="datapath must be a mapping of names to"):
        datapaths_from(plain)


def test_the_reference_comes_last_in_whatever_order_datapaths_are_named() -> None:
    packetsim, ns3 = load_datapath("packetsim"), load_datapath("ns3")
    for named in ((packetsim, ns3), (ns3, packetsim)):
        assert reference_last(named) == (packetsim, ns3)
    assert reference_last((packetsim,)) == (packetsim,)
    with pytest.raises(ConfigError, match="one datapath at most can be the reference of the others, got ns3, other"):
        reference_last((ns3, ns3.replace(name="other")))


def test_judging_on_one_more_datapath_keeps_what_is_there(tmp_path: Path) -> None:
    arguments = ("controller=dctcp", "scenario=dumbbell", "duration_s=0.02", "seeds=1", "out=judged")
    done = ncc("evaluate", *arguments, "datapath=ns3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "judged" / "ns3" / "dctcp" / "0" / "manifest.json"
    before = run.stat().st_mtime_ns
    done = ncc("evaluate", *arguments, "datapath=[packetsim,ns3]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept from before" in done.stderr
    assert run.stat().st_mtime_ns == before
    assert json.loads((tmp_path / "judged/comparison.json").read_text())["datapaths"] == ["packetsim", "ns3"]
