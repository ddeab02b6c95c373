# SPDX-License-Identifier: BSD-3-Clause
"""Translation of command lines from the form that people type to the form that Hydra reads."""

import re
from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.run.config_files import PACKAGE

FOLDERS = ("out", "resume", "run")
"""Keys whose values are names of folders or files, which may have any characters."""
PLAIN = r"[\w/\\+.$%*@?|: -]*"
"""Values that Hydra's grammar reads without quotes."""
LISTED = rf"{PLAIN}(,{PLAIN})+"
LISTS = ("evaluation.datapaths", "evaluation.controllers")
"""Keys whose values are lists, even with one entry."""
OPTIONS = {
    *("-h", "--help", "--hydra-help", "--version", "-c", "--cfg", "--resolve", "-p", "--package", "-r", "--run", "-m"),
    *("--multirun", "-sc", "--shell-completion", "-cp", "--config-path", "-cn", "--config-name", "-cd", "--config-dir"),
    *("-i", "--info"),
}
"""Options of Hydra, which every verb takes."""
MULTIRUN = ("-m", "--multirun", "hydra.mode=MULTIRUN")


def require_no_options(arguments: Sequence[str], main: str) -> None:
    """Refuse options such as `--seeds 3`.

    Raises:
        ConfigError: there is an unknown option; the message says how to write the setting.
    """
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        option, _, value = word.partition("=")
        if option.startswith("-") and option not in (*OPTIONS, "--"):
            value = value or (following if following and following[0] != "-" and "=" not in following else "<value>")
            key = option.lstrip("-").replace("-", "_")
            raise ConfigError(f"ncc {main} has no option {option}; settings have no dashes: write {key}={value}")


def as_hydra_reads(arguments: Sequence[str], main: str) -> list[str]:
    """Quote names, put comma-separated values in brackets, and add `scenario.` where it is missing."""
    several = any(option in arguments for option in MULTIRUN)  # commas separate runs then
    words = [_quoted(word if several else _in_brackets(word)) for word in arguments]
    return [_of_scenario(word, main, words) for word in words]


def _in_brackets(word: str) -> str:
    """Turn `key=a,b` into `key=[a,b]`, except for keys that take one value.

    Users need not type the brackets, which zsh would take for a file pattern.
    """
    key, _, value = word.partition("=")
    takes_one = "/" in key or (key in FOLDERS and key != "run") or ((PACKAGE / key).is_dir() and key != "datapath")
    pattern = rf"{PLAIN}(,{PLAIN})*" if key in LISTS else LISTED
    return word if takes_one or not re.fullmatch(pattern, value, re.ASCII) else f"{key}=[{value}]"


def _quoted(word: str) -> str:
    """Add the quotes that Hydra needs around characters such as = and # in a folder's name, if there are none."""
    key, _, value = word.partition("=")
    if key not in FOLDERS or value[:1] in ("", "'", '"', "[", "{", "$") or re.fullmatch(PLAIN, value, re.ASCII):
        return word
    escaped = value.replace('"', '\\"')
    return f'{key}="{escaped}"'


def _of_scenario(word: str, main: str, words: Sequence[str]) -> str:
    """Put `scenario.` before a word such as `transport.mtu_bytes=9000`, if the verb has a scenario and no such key."""
    signs, key = re.match(r"([+~]*)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    first = re.split(r"[.=]", key, maxsplit=1)[0]
    if first not in {field.name for field in msgspec.structs.fields(Scenario)}:
        return word
    from ncc.cli.help import written  # imported late: few runs need it

    groups, keys = written(main)
    main_keys = {key.partition(".")[0] for key in keys}
    if "scenario" not in groups or first in main_keys:
        return word
    typed = {other.partition("=")[0] for other in words}
    if groups["scenario"][0] == "null" and "scenario" not in typed:
        remedy = f"write experiment.scenario.{key}" if "experiment" in typed else "choose scenario= as well"
        raise ConfigError(f"{word} changes a scenario, and none is chosen here: {remedy}")
    return f"{signs}scenario.{key}"
