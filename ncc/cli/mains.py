# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of the commands: the call of Hydra, a fast `--help`, and errors as a sentence and an exit status."""

import errno
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from ncc.cli.verbs import version_line
from ncc.cli.words import as_hydra_reads, require_no_options
from ncc.core.errors import ConfigError, NccError, UnknownNameError
from ncc.core.options import let_reader_leave, print_anywhere
from ncc.run.compose import plain_config, register
from ncc.run.config_files import (
    PACKAGE,
    config_folders,
    config_paths,
    elsewhere,
    list_with_comments,
    typed_config_dir,
    use_config_dir,
    with_scenario_files,
)

STATUS_CONFIG = 2
STATUS_FAILED = 1
STATUS_INTERRUPTED = 130
NOT_CHOICES = ("hydra", "schema", "controllers", "families")
"""Configuration groups that cannot be chosen with group=option."""
NO_NAME = re.compile(r"[+-]?\d+|[+-]?(\d+\.\d*|\.?\d+)(e[+-]?\d+)?|[+-]?inf|nan|true|false|null", re.IGNORECASE)
"""Pattern of the values that Hydra does not read as a word."""


def run_main(name: str, main: Callable[[dict[str, Any], list[str]], None]) -> None:
    """Compose configs/<name>.yaml with the command line; call `main` with plain data and the overrides as typed.

    Exit status: 2 for an unusable setting, 1 for a failed run, 130 for an interrupt. Any other error is a bug and keeps
    its traceback.
    """
    print_anywhere()
    register()
    arguments = sys.argv[1:]
    if "--version" in arguments:
        print(version_line())
        return
    _user_errors(lambda: _read(name, arguments), main=name)
    if "scenario=list" in arguments and "scenario" in _own_groups(name):
        list_with_comments(config_paths("scenario"))
        return
    if {"-h", "--help"} & set(arguments):
        overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
        asked = next(i for i, argument in enumerate(arguments) if argument in ("-h", "--help"))
        parts = list(takewhile(lambda word: not word.startswith("-") and "=" not in word, arguments[asked + 1 :]))
        _user_errors(lambda: _help(name, overrides, parts), main=name)
        return

    @hydra.main(version_base=None, config_path="pkg://ncc.configs", config_name=name)
    def composed(config: Any) -> None:
        job = HydraConfig.get()
        overrides = cast(list[str], OmegaConf.to_container(job.overrides.task, resolve=False))
        sweep = "" if job.mode is not RunMode.MULTIRUN else f"the sweep ends here, at {' '.join(overrides)}"
        _user_errors(lambda: main(plain_config(config), overrides), sweep, main=name)

    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise composition errors instead of printing them in several lines
    _user_errors(composed, main=name)


def _read(name: str, arguments: list[str]) -> None:
    """Put the words of a command line into the form that Hydra reads, and refuse those that it would misread."""
    require_no_options(arguments, name)
    sys.argv[1:] = arguments[:] = as_hydra_reads(arguments, name)
    use_config_dir(typed_config_dir(arguments))
    sys.argv[1:] = arguments[:] = [*map(with_scenario_files, arguments)]
    _require_whole_groups(arguments)
    _require_resume_alone(arguments)
    _require_names(name, arguments)


def _require_resume_alone(arguments: Sequence[str]) -> None:
    """Refuse `resume=<folder>` together with settings that would change the run."""
    folder = next((word.removeprefix("resume=") for word in arguments if word.startswith("resume=")), "null")
    if folder not in ("null", "true", "false"):  # these are no folders, and are refused later
        others = [word for word in arguments if "=" in word and not word.startswith(("resume=", "-"))]
        if others:
            raise ConfigError(f"resume continues a run with its own configuration; leave out {', '.join(others)}")


def _require_whole_groups(arguments: Sequence[str]) -> None:
    """Refuse `a.b.kind=c` where `a/b=c` chooses a YAML: the other keys would still be those of the former kind."""
    for key, _, value in (argument.partition("=") for argument in arguments):
        group = key.removesuffix(".kind").replace(".", "/")
        if key.endswith(".kind") and (PACKAGE / group).is_dir():
            raise ConfigError(f"{key}={value} leaves the settings of another kind in place: choose {group}={value}")


def _require_names(main: str, arguments: Sequence[str]) -> None:
    """Refuse a number or truth value where a group's YAML is chosen: Hydra takes words only."""
    for key, _, value in (argument.partition("=") for argument in arguments):
        if NO_NAME.fullmatch(value) and key.lstrip("+") in (own := _own_groups(main)):
            known = ", ".join(groups().get(key.lstrip("+"), own))
            raise ConfigError(f"{key}={value} is no word, as a file's name has to be: {known}")


def _help(name: str, overrides: list[str], parts: list[str]) -> None:
    """Print the help of the verb, or of the keys within `parts`. Hydra's own --help takes over a second."""
    from ncc.cli.help import show, show_within

    # Finding the installed datapaths means loading them, which takes too long here.
    OmegaConf.register_new_resolver("installed", lambda *names: list(names), replace=True)
    with hydra.initialize_config_module("ncc.configs", version_base=None):
        config = hydra.compose(name, overrides, return_hydra_config=True)
    choices = config.hydra.runtime.choices
    with open_dict(config):
        del config["hydra"]
    for part in parts:
        show_within(config, part)
    if not parts:
        show(name, config, choices, groups())


def _own_groups(main: str) -> list[str]:
    """Groups of the configuration of a verb, in the order of its YAML."""
    from ncc.cli.help import written  # imported late: a run does not need it

    return list(written(main)[0])


def groups() -> dict[str, list[str]]:
    """List the options of each group, from the YAML files and from the values that `register` stored."""
    from hydra.core.config_store import ConfigStore

    options: dict[str, set[str]] = {}

    def walk(tree: Any, path: str) -> None:
        for key, node in tree.items():
            if isinstance(node, dict):
                walk(node, f"{path}/{key}" if path else key)
            elif path:
                options.setdefault(path, set()).add(key.removesuffix(".yaml"))

    walk({key: node for key, node in ConfigStore.instance().repo.items() if isinstance(node, dict)}, "")
    for root in config_folders():
        for file in root.glob("*/**/*.yaml"):
            options.setdefault(str(file.parent.relative_to(root)), set()).add(file.stem)
    options["scenario"].add("list")
    return {group: sorted(names) for group, names in options.items() if group.split("/")[0] not in NOT_CHOICES}


def _user_errors(body: Callable[[], None], more: str = "", *, main: str) -> None:
    """Run `body`; print an error that a user can act on as a sentence, with `more` below it, and exit."""
    try:
        body()
    except ConfigError as error:
        _fail(f"error: {error}", STATUS_CONFIG, more)
    except HydraException as error:
        _fail(f"error: {_composition_error(error, main)}", STATUS_CONFIG)
    except MarkedYAMLError as error:
        _fail(f"error: a file cannot be read as YAML: {' '.join(str(error).split())}", STATUS_CONFIG)
    except NccError as error:
        _fail(f"error: {error}", STATUS_FAILED, more)
    except KeyboardInterrupt as interrupt:
        _fail(str(interrupt) or "interrupted", STATUS_INTERRUPTED, more)
    except BrokenPipeError:
        let_reader_leave()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _fail(f"error: the name {error.filename} is too long for a file or folder", STATUS_CONFIG, more)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        where = f" at {error.filename}" if error.filename else ""
        _fail(f"error: no space left on the disk{where}; free some and run again, or resume", STATUS_FAILED, more)


def _composition_error(error: HydraException, main: str) -> str:
    """Turn Hydra's error of several lines into one sentence."""
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = error.missing_cfg_file.rpartition("/")
        known = groups().get(group, []) if error.options is None else error.options
        return str(UnknownNameError(group or "configuration", option, known, elsewhere(group, option)))
    if isinstance(cause, OmegaConfBaseException) and cause.full_key and isinstance(cause.parent_node, Mapping):
        parent, _, key = cause.full_key.rpartition(".")
        none = f"a key of {key} is set, and none is chosen; choose {key}= as well"
        unset = f"{parent} is not set, so it has no key {key!r}: set it whole, as in '{parent}={{{key}: ...}}'"
        known = [*map(str, cause.parent_node), *(() if parent else _own_groups(main))]
        no_key = UnknownNameError(f"key of {parent}" if parent else "key", key, dict.fromkeys(known))
        return none if cause.full_key in _own_groups(main) else str(no_key) if cause.parent_node else unset
    if unmatched := re.match(r"Could not override '([^']+)'\. No match in the defaults list", str(error)):
        group = unmatched[1]
        top, own = group.partition("/")[0], _own_groups(main)
        if group != top and top in own:
            return f"{group}= changes a {top}, and none is chosen; choose {top}= as well"
        return f"ncc {main} has no group {group}" + (f"; its groups are {', '.join(own)}" if own else "")
    if isinstance(error, OverrideParseException):
        return f"Cannot read override {error.override!r}; write group=option or key=value, in quotes for the shell"
    return "; ".join(line.strip().rstrip(".") for line in str(error).splitlines() if line.strip())


def _fail(message: str, status: int, more: str = "") -> None:
    if sys.stdout is not None:  # the shell may have closed it
        sys.stdout.flush()
    print(*filter(None, (message, more)), sep="\n", file=sys.stderr)
    sys.exit(status)
