# SPDX-License-Identifier: BSD-3-Clause
"""YAMLs by group and name: those of the package, and those of a folder of one's own (`--config-dir`)."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from ncc.core.errors import ConfigError, UnknownNameError

PACKAGE = Path(str(files("ncc.configs")))
RECIPES = "recipes"
"""A second folder of groups in the package, which only trainings see."""
WHOLE = "@package _global_"
"""A recipe of training begins with it, for it changes the whole configuration; a figure of a paper does not."""

_own: list[Path] = []


class OwnFolder(SearchPathPlugin):
    """Lets Hydra find the YAMLs of one's own folder wherever it composes."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in _own:
            search_path.append("ncc", f"file://{folder}")


def use_config_dir(folder: Path | None) -> None:
    """Take the YAMLs of this folder beside the package's from now on; None: the package's alone.

    Raises:
        ConfigError: no such folder, or a file in it has the group and name of a file of the package.
    """
    _own.clear()
    if folder is None:
        return
    if not folder.is_dir():
        raise ConfigError(f"--config-dir {folder} is no folder; name one that has controllers/<name>.yaml or the like")
    for file in sorted(folder.rglob("*.yaml")):
        name = file.relative_to(folder)
        if any((root / name).is_file() for root in (PACKAGE, PACKAGE / RECIPES)):
            raise ConfigError(f"{file} has the name of a file of the package, {name}: call yours otherwise")
    _own.append(folder.resolve())
    Plugins.instance().register(OwnFolder)


def typed_config_dir(arguments: Sequence[str]) -> Path | None:
    """The folder that `--config-dir` names on a command line, as Hydra reads it."""
    for flag, value in pairwise([*arguments, ""]):
        if flag in ("--config-dir", "-cd"):
            return Path(value)
        if flag.startswith("--config-dir="):
            return Path(flag.partition("=")[2])
    return None


def config_folders() -> tuple[Path, ...]:
    """Folders of groups: the package's and one's own."""
    return (PACKAGE, *_own)


def config_paths(group: str) -> dict[str, Path]:
    """Every YAML of a group by its name, in the order of names."""
    found = {file.stem: file for folder in config_folders() for file in (folder / group).glob("*.yaml")}
    return dict(sorted(found.items()))


def read_config(group: str, what: str, name: str) -> Mapping[str, Any]:
    """One YAML as it is written, without its defaults; `what` it is, for the error of a name that is unknown."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    if name not in (known := config_paths(group)):
        raise UnknownNameError(what, name, known)
    try:
        plain = OmegaConf.to_container(OmegaConf.create(known[name].read_text()))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"{known[name]} cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(plain, dict):
        raise ConfigError(f"{known[name]} must be a mapping of keys, got {type(plain).__name__}")
    return cast(Mapping[str, Any], plain)


def experiment_paths() -> dict[str, Path]:
    """Every figure of a paper, in group `experiment`, by its name."""
    return {name: file for name, file in config_paths("experiment").items() if not _is_recipe(file)}


def recipe_paths() -> dict[str, Path]:
    """Every recipe of training by its name: those of the package, and of one's own group `experiment`."""
    own = {name: file for name, file in config_paths("experiment").items() if _is_recipe(file)}
    return dict(sorted({**config_paths(f"{RECIPES}/experiment"), **own}.items()))


def list_with_comments(found: Mapping[str, Path]) -> None:
    """Print each name with the first sentence of its YAML's first comment, package and licence apart."""
    for name, file in found.items():
        text = re.sub(r"(?m)^# ?(@package|SPDX).*\n", "", file.read_text())
        comment = re.search(r"(?m)^(?:#.*\n?)+", text)
        said = " ".join(re.sub(r"(?m)^#", "", comment[0]).split()) if comment else str(file)
        print(f"{name:16} {re.split(r'(?<=[.]) (?=[A-Z])', said)[0]}")


def _is_recipe(file: Path) -> bool:
    return PACKAGE not in file.parents and WHOLE in file.read_text(errors="replace")
