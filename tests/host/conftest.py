# SPDX-License-Identifier: BSD-3-Clause
"""A policy file that hosts run, and a folder for running agents that is tidy afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.envs.linux.machine import FOLDER
from ncc.policies.export import ExportSpec, export
from ncc.policies.file import PolicyFile, load_policy_file
from tests.host.hosts import FOR_ALL
from tests.host.policies import discrete, residual


@pytest.fixture(scope="session", autouse=True)
def _tidy() -> Iterator[None]:
    """Remove records that killed agents left of namespaces that are gone."""
    before = set(FOLDER.glob("[0-9]*"))
    yield
    for left in set(FOLDER.glob("[0-9]*")) - before:
        left.unlink()


@pytest.fixture
def key(tmp_path: Path) -> str:
    """Name of a file with one key for all."""
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(FOR_ALL)
    return str(path)


@pytest.fixture(scope="session")
def policy_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy of shares that nobody trained, once a millisecond."""
    path = tmp_path_factory.mktemp("policy") / "policy.ncc"
    packaged = load_policy_file(export(ExportSpec(policy="ncc", out=str(path), period_s=0.001)))
    path.write_bytes(discrete(packaged)[0])
    return path


@pytest.fixture(scope="session")
def policy_file(policy_path: Path) -> PolicyFile:
    return load_policy_file(policy_path)


@pytest.fixture(scope="session")
def learned_path(policy_file: PolicyFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that multiplies a formula's limits."""
    path = tmp_path_factory.mktemp("policy") / "learned.ncc"
    path.write_bytes(residual(policy_file)[0])
    return path


@pytest.fixture(scope="session")
def learned(learned_path: Path) -> PolicyFile:
    return load_policy_file(learned_path)
