# SPDX-License-Identifier: BSD-3-Clause
"""The verbs of the command ``ncc``. Each is a program, ``ncc/<verb>.py`` or ``ncc/<verb>/__main__.py``."""

import ast
import platform
from importlib.util import find_spec
from pathlib import Path

import ncc

GROUPS: dict[str, tuple[str, ...]] = {
    "Learn, compare, show": ("train", "evaluate", "report", "play"),
    "Bring a policy to hosts, or a rack to an agent": ("export", "host", "serve"),
    "Many runs at once": ("league", "sweep"),
    "Check ncc itself": ("agreement", "bench"),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)


def sentence(verb: str) -> str:
    """Purpose of a verb: the first line of its module's docstring, which is read without importing the module."""
    spec = find_spec(f"ncc.{verb}")
    assert spec is not None, verb
    assert spec.origin is not None, verb
    path = Path(spec.origin)
    source = path.with_name("__main__.py") if path.name == "__init__.py" else path
    return (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n")[0]


def version_line() -> str:
    """Version, commit if this is a checkout, and Python version."""
    from ncc.harness.manifest import git_state

    state = git_state(Path(ncc.__file__).resolve().parent.parent)
    commit = f", commit {state['commit'][:10]}{' with changes' if state['dirty'] else ''}" if state["commit"] else ""
    return f"ncc {ncc.__version__}{commit}, Python {platform.python_version()}"
