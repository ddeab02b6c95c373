# SPDX-License-Identifier: BSD-3-Clause
"""The repository speaks of itself alone, pins what it is tested with, and its source archive unpacks to a package."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ncc.agents.policy import packaged_policy
from ncc.harness.manifest import provenance
from tests.house.files import ROOT, texts, tracked
from tests.support.experiments import small_rack
from tests.support.policies import package

FOREIGN = {
    "a path of one machine": re.compile(r"(?<![\w.$}>/-])/(?:work|tmp|root|home|farm)/\w"),
    "the address of a package index": re.compile(r"(?:extra-)?index-url|https?://[\w.-]*(?:pypi|index|proxy)[\w.-]*/"),
    "a plan that readers cannot see": re.compile(r"\b(?:issue|ticket) #?\d+\b", re.IGNORECASE),
    "a stranger's package: `ncc` at the registry is not ours": re.compile(r"pip install .*\bncc\b|\bncc\[\w+\]"),
    "a mark for a number that is still to come": re.compile(r"@@|@[A-Z][A-Z0-9_]*@"),
}


@pytest.mark.parametrize("what", sorted(FOREIGN))
def test_nothing_foreign(what: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts().items()
        if path != "tests/house/test_repository.py"
        for number, line in enumerate(text.splitlines(), 1)
        if FOREIGN[what].search(line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


BEGINNINGS = re.compile(r"(What|Of|Whether|Where|Who|That|How)\b")


def test_docstrings_begin_with_a_noun_phrase_or_a_verb() -> None:
    found = []
    for path, text in texts().items():
        nodes = ast.walk(ast.parse(text)) if path.endswith((".py", ".pyi")) else ()
        strings = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
        wrong = [node for node in strings if isinstance(node.value, str) and BEGINNINGS.match(node.value)]
        found += [f"{path}:{node.lineno}" for node in wrong]
    assert not found, "\n".join(found)


def requirements() -> list[Requirement]:
    config = tomllib.loads(texts()["pyproject.toml"])
    extras = config["project"]["optional-dependencies"]
    listed = [config["build-system"]["requires"], config["project"]["dependencies"], *extras.values()]
    return [found for part in listed for found in map(Requirement, part) if found.name != config["project"]["name"]]


def test_the_citation_and_the_changelog_are_of_this_version() -> None:
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    cited = yaml.safe_load(texts()["CITATION.cff"])
    assert cited["version"] == project["version"]
    assert f"version = {{{project['version']}}}" in texts()["docs/cite.md"]
    assert re.findall(r"(?m)^## (.*)$", texts()["CHANGELOG.md"])[0] == project["version"]
    assert " AND ".join(cited["license"]) == project["license"]


def constraints() -> dict[str, str]:
    lines = [line for line in texts()["constraints.txt"].splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+]+", line) for line in lines), "exact versions by name only"
    return dict(line.split("==") for line in lines)


def test_every_requirement_is_pinned_within_its_range() -> None:
    pinned = constraints()
    for requirement in requirements():
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), f"{requirement} does not allow the pinned {version}"


def test_the_build_links_the_simulator_that_runs() -> None:
    exact = {str(r.specifier) for r in requirements() if r.name == "ns3"}
    assert exact == {"==" + constraints()["ns3"]}


def made(what: str, source: Path, folder: Path) -> Path:
    """The source archive (`sdist`) of a folder, or its `wheel` without the extension modules."""
    settings = {"wheel.cmake": "false"} if what == "wheel" else {}
    code = f"import sys; from scikit_build_core.build import build_{what} as build; build(sys.argv[1], {settings})"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=source, check=True, capture_output=True)
    (path,) = folder.glob("neighbour_cc-*.whl" if what == "wheel" else "neighbour_cc-*.tar.gz")
    return path


def test_the_source_archive_holds_the_package_once_and_makes_a_wheel_with_policies(tmp_path: Path) -> None:
    sources = tmp_path / "sources"  # without the environment and what was built, through which the builder would search
    for path in tracked():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, sources / path, follow_symlinks=False)
    with tarfile.open(made("sdist", sources, tmp_path)) as opened:
        members = {member.name.partition("/")[2]: member for member in opened.getmembers()}
        opened.extractall(tmp_path / "archive", filter="data")
    for path in ("envs/ns3/datapath.py", "agents/policy.py", "baselines/cc.h", "configs/train.yaml"):
        assert members[f"ncc/{path}"].isfile()
    assert "ncc/agents/pretrained/README.md" in members
    tops = {name.split("/")[0] for name in members}
    assert not tops & {"envs", "agents", "baselines", "configs", "notebooks", "studies", "runs", "build", ".venv"}
    assert {"LICENSES", "CMakeLists.txt", "pyproject.toml"} <= tops
    assert not [name for name, member in members.items() if member.issym() or name.endswith(".so")]
    (source,) = (tmp_path / "archive").iterdir()
    package(source / "ncc" / "agents" / "pretrained", small_rack(), name="added")
    wheel = made("wheel", source, tmp_path)
    with zipfile.ZipFile(wheel) as opened_wheel:
        opened_wheel.extractall(tmp_path / "site")
    assert packaged_policy("added", tmp_path / "site" / "ncc" / "agents" / "pretrained").is_file()
    assert provenance()["ncc"] in wheel.name
