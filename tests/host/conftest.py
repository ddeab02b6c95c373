# SPDX-License-Identifier: BSD-3-Clause
"""Another try for tests of real traffic, as in tests/linux; and a policy file that hosts run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.deployed.file import PolicyFile, load_policy_file
from ncc.export.source import ExportSpec
from ncc.export.write import export
from ncc.host.settings import RUN
from tests.linux.conftest import TRIES
from tests.support.linux import sends_traffic

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and sends_traffic(item):
            item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, reruns_delay=2))


@pytest.fixture(scope="session", autouse=True)
def _tidy() -> Iterator[None]:
    """Agents that tests kill leave word of settings of namespaces that are gone by now."""
    before = set(RUN.glob("ncc-host-*.json"))
    yield
    for left in set(RUN.glob("ncc-host-*.json")) - before:
        left.unlink()


@pytest.fixture(scope="session")
def policy_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy that comes with the package, once a millisecond."""
    path = tmp_path_factory.mktemp("policy") / "policy.ncc"
    return export(ExportSpec(policy="ncc", out=str(path), period_s=0.001))


@pytest.fixture(scope="session")
def policy_file(policy_path: Path) -> PolicyFile:
    return load_policy_file(policy_path)
