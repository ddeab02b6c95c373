# SPDX-License-Identifier: BSD-3-Clause
"""The Dockerfile against the files that it relies on, because not every machine can build the image."""

import re
import tomllib
from fnmatch import fnmatch

import pytest
from packaging.specifiers import SpecifierSet

from tests.house.files import ROOT, texts, tracked
from tests.house.test_repository import constraints

TEXT = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads(texts()["pyproject.toml"])
INSTRUCTIONS = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """Instructions in order, each with its arguments in one line."""
    lines = re.sub(r"(?m)^#.*\n", "", TEXT).replace("\\\n", " ").splitlines()
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines if line)]


def of(kind: str) -> list[str]:
    return [rest for word, rest in instructions() if word == kind]


def test_it_has_known_instructions_and_ends_as_a_user_with_a_command() -> None:
    assert {word for word, _ in instructions()} <= INSTRUCTIONS
    assert of("ENTRYPOINT") == ['["ncc"]']
    assert "ncc" in PROJECT["project"]["scripts"]
    last = [word for word, _ in instructions()][::-1]
    assert last.index("USER") < last.index("RUN"), "nothing runs as root after the last installation"
    (user,) = of("USER")
    assert f"useradd {user}" in " ".join(of("RUN"))


def test_its_bases_are_a_python_that_ncc_runs_on() -> None:
    default = dict(arg.split("=") for arg in of("ARG"))["PYTHON"]
    assert default in SpecifierSet(PROJECT["project"]["requires-python"])
    assert {base.split()[0] for base in of("FROM")} == {"python:${PYTHON}-slim"}
    stages = [base.split(" AS ")[1] for base in of("FROM") if " AS " in base]
    assert re.findall(r"from=(\w+)", TEXT) == stages


def test_it_installs_what_the_build_requires_at_pinned_versions() -> None:
    run = " ".join(of("RUN"))
    installed = {
        word for line in re.findall(r"pip install ([^&]*)", run.partition("pip wheel")[0]) for word in line.split()
    }
    required = {re.split(r"[^\w-]", name)[0] for name in PROJECT["build-system"]["requires"]}
    assert required <= installed, "a build without isolation finds only these"
    assert required <= set(constraints())
    for command in re.findall(r"pip install [^&]*", run):
        assert re.search(r" -c \S*constraints\.txt ", command), f"without the pinned versions: {command}"
        assert "--no-cache-dir" in command, f"pip's cache stays in the image: {command}"
    for line in of("RUN"):
        assert "apt-get install" not in line or "rm -rf /var/lib/apt/lists" in line


def test_what_it_copies_is_there() -> None:
    """It needs all that git knows of the folder; `.dockerignore` leaves out nothing of that."""
    assert of("COPY") == [". ."]
    left_out = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    lost = [path for path in tracked() for rule in left_out if fnmatch(path, rule) or path.split("/")[0] == rule]
    assert not lost
    assert "constraints.txt" in tracked()
    wheel = re.escape(PROJECT["project"]["name"].replace("-", "_"))
    assert re.search(rf"/dist/{wheel}-\*\.whl", TEXT), "the wheel has the project's name"


@pytest.mark.parametrize("page", ["Dockerfile", "docs/install.md"])
def test_the_shown_commands_name_extras_that_exist(page: str) -> None:
    shown = re.findall(r"EXTRAS=\[([\w,]+)\]", (ROOT / page).read_text())
    assert shown
    assert {extra for part in shown for extra in part.split(",")} <= set(PROJECT["project"]["optional-dependencies"])
    assert re.search(r"docker run .* ncc evaluate", (ROOT / page).read_text())
