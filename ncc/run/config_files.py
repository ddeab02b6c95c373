# SPDX-License-Identifier: BSD-3-Clause
"""YAML files by group and name: those of the package, and those of the user's folder (`--config-dir`)."""

import copy
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.options import folded, list_width
from ncc.envs.scenarios import names_file

PACKAGE = Path(str(files("ncc.configs")))

_user_folders: list[Path] = []


class OwnFolder(SearchPathPlugin):
    """A plugin that lets Hydra find the YAML files of the user's folder."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in _user_folders:
            search_path.append("ncc", f"file://{folder}")


def use_config_dir(folder: Path | None) -> None:
    """Use the YAML files of `folder` in addition to the package's from now on; None: only the package's.

    Raises:
        ConfigError: there is no such folder, or a file in it has the group and name of a file of the package.
    """
    _user_folders.clear()
    if folder is None:
        return
    if not folder.is_dir():
        raise ConfigError(f"--config-dir {folder} is no folder; name one that has controllers/<name>.yaml or the like")
    for file in sorted(folder.rglob("*.yaml")):
        name = file.relative_to(folder)
        if (PACKAGE / name).is_file():
            raise ConfigError(f"{file} has the name of a file of the package, {name}: call yours otherwise")
    _user_folders.append(folder.resolve())
    Plugins.instance().register(OwnFolder)


def with_scenario_files(word: str) -> str:
    """Register the files in an argument like ``scenario=my/own.yaml`` with Hydra; return it with their new names.

    Raises:
        ConfigError: a file cannot be read or is no mapping.
    """
    if not word.startswith("scenario="):
        return word
    parts = word.removeprefix("scenario=").split(",")
    return f"scenario={','.join(_offered(Path(part)) if names_file(part) else part for part in parts)}"


def _offered(path: Path) -> str:
    # A path may have what Hydra takes for its grammar. Each path gets a name of its own.
    name = "file" + re.sub(r"[\W_]", lambda other: f"_{ord(other[0]):x}_", str(path), flags=re.ASCII)
    ConfigStore.instance().store(
        group="scenario", name=name, node={"name": path.stem, **_mapping_in(path.expanduser())}
    )
    return name


def typed_config_dir(arguments: Sequence[str]) -> Path | None:
    """The folder that `--config-dir` names on a command line, read by Hydra's rules; None if it is not there."""
    for flag, value in pairwise([*arguments, ""]):
        if flag in ("--config-dir", "-cd"):
            return Path(value)
        if flag.startswith("--config-dir="):
            return Path(flag.partition("=")[2])
    return None


def config_folders() -> tuple[Path, ...]:
    """Folders that hold the groups: the package's and, if it is in use, the user's."""
    return (PACKAGE, *_user_folders)


def config_paths(group: str) -> dict[str, Path]:
    """Paths of all YAML files of a group by name, sorted by name."""
    files = {file.stem: file for folder in config_folders() for file in (folder / group).glob("*.yaml")}
    return dict(sorted(files.items()))


def elsewhere(group: str, name: str) -> str:
    """Sentence that names a file of this group and name in the current folder or one of its folders; empty if none.

    It is empty without a group too, because such a file may be anything.
    """
    if not group:
        return ""
    for file in sorted(file for at in ("", "*/") for file in Path().glob(f"{at}{group}/*.yaml")):
        folder = file.parents[group.count("/") + 1]
        if file.stem == name and folder.resolve() not in _user_folders:
            return f"{file} has that name: add --config-dir {folder}."
    return ""


def read_config(group: str, what: str, name: str) -> Mapping[str, Any]:
    """Read the YAML file of a name in a group; the files in its defaults list are not read.

    Args:
        what: kind of the name, for the error, such as ``controller``.

    Raises:
        UnknownNameError: the group has no such name; the message lists those that it has.
        ConfigError: the file cannot be read.
    """
    if name not in (known := config_paths(group)):
        raise UnknownNameError(what, name, known, elsewhere(group, name))
    return _mapping_in(known[name])


def _mapping_in(path: Path) -> dict[str, Any]:
    from yaml import YAMLError

    try:
        plain = _parsed(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(plain, dict):
        raise ConfigError(f"{path} must be a mapping of keys, got {type(plain).__name__}")
    return cast(dict[str, Any], copy.deepcopy(plain))


@cache
def _parsed(text: str) -> Any:
    """Parse the text of a YAML file; cached, because an experiment reads the same few files for each run."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.create(text))


def list_with_comments(found: Mapping[str, Path]) -> None:
    """Print each name with the first sentence of the comment that begins its YAML file.

    Lines with the licence or a `@package` are left out.
    """
    entries = []
    for name, file in found.items():
        text = re.sub(r"(?m)^# ?(@package|SPDX).*\n", "", file.read_text())
        comment = re.search(r"(?m)^(?:#.*\n?)+", text)
        summary = " ".join(re.sub(r"(?m)^#", "", comment[0]).split()) if comment else str(file)
        entries.append((name, re.split(r"(?<=[.]) (?=[A-Z])", summary)[0]))
    print(*folded(entries, width=list_width()), sep="\n")
