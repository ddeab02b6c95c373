# SPDX-License-Identifier: BSD-3-Clause
"""Completion of command lines of ``ncc``, for bash and zsh: ``eval "$(ncc --completion bash)"``."""

from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import hydra
from hydra.errors import HydraException
from omegaconf import OmegaConf

from ncc.agents.policy import packaged_names
from ncc.cli.help import written
from ncc.cli.mains import groups
from ncc.cli.verbs import VERBS
from ncc.core.errors import NccError
from ncc.evaluate import EvaluateSpec
from ncc.harness.manifest import MANIFEST
from ncc.host.__main__ import COMMANDS as HOST_COMMANDS
from ncc.run.compose import register
from ncc.run.config_files import PACKAGE, typed_config_dir, use_config_dir
from ncc.run.controllers import controller_names
from ncc.study.bench import GROUPS

BASH = r"""# bash completion of ncc; in ~/.bashrc: eval "$(ncc --completion bash)"
_ncc() {
  local IFS=$'\n' line="${COMP_LINE:0:$COMP_POINT}" word broken=
  word="${line##* }"
  COMPREPLY=($("$1" --complete "$line" 2>/dev/null))
  # bash completes the part after the last = or : alone, where these break words.
  case $COMP_WORDBREAKS in *=*) broken="${word%"${word##*[=:]}"}" ;; esac
  COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}
complete -o nospace -o bashdefault -o default -F _ncc ncc
"""
ZSH = f"""autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
{BASH}"""
SCRIPTS = {"bash": BASH, "zsh": ZSH.replace("bash completion", "zsh completion").replace("bashrc", "zshrc")}
"""Script to evaluate, by shell."""
RUNS = {"run": MANIFEST, "resume": "config.json"}
"""Keys whose value is a run folder, and the file that marks such a folder: a finished run has a manifest."""
CONTROLLERS = ("controller", "evaluation.controllers", "reference", "timeline", "fallback")
FLAGS = ("--help", "--version")


def candidates(line: str) -> list[str]:
    """Completions of the last word of a command line; empty where the shell completes files.

    A candidate that ends in a blank is a complete word. Lines that cannot be composed have candidates for groups only.
    """
    *before, word = line.split(" ")
    typed = [part for part in before[1:] if part]
    if not typed:
        return _starting(word, [f"{name} " for name in (*VERBS, *FLAGS, "--completion")])
    if not (PACKAGE / f"{typed[0]}.yaml").exists():
        return _starting(word, [f"{name} " for name in (_commands(typed) if not word.startswith("-") else FLAGS[:1])])
    register()
    try:
        use_config_dir(typed_config_dir(typed))
        known = groups()
        if "=" in word:
            key, _, value = word.partition("=")
            return _values(key, value, known, typed)
        return _starting(word, _keys(word, known, written(typed[0])[0], _composed(typed)))
    except NccError:
        return []


def _values(key: str, value: str, known: Mapping[str, Iterable[str]], typed: list[str]) -> list[str]:
    """Completions of a value: options of a group, names, folders, true and false; in brackets, of the last entry."""
    cut = max(value.rfind("["), value.rfind(",")) + 1
    end = "" if cut else " "
    key_only = key.lstrip("+")
    if key_only in known:
        options = [*known[key_only]]
    elif key_only in CONTROLLERS:
        options = [*controller_names(), *(["list"] if key_only == "controller" and not cut else [])]
    elif key_only in RUNS:
        options = sorted({str(path.parent) for path in Path("runs").glob(f"*/{RUNS[key_only]}")})
    elif key_only == "policy":
        options = [*packaged_names()]
    elif key_only == "preset":
        options = ["quick", "full"]
    elif (setting := key_only.removeprefix("evaluation.")) in ("table", "executor"):
        options = [*get_args(get_type_hints(EvaluateSpec)[setting])]
    elif isinstance(OmegaConf.select(_composed(typed), key_only), bool):
        options = ["true", "false"]
    else:
        options = []
    return [f"{key}={value[:cut]}{name}{end}" for name in _starting(value[cut:], options)]


def _commands(typed: list[str]) -> list[str]:
    """Commands of ``ncc host`` or groups of ``ncc bench``, if another may follow; other verbs have none."""
    if typed == ["host"]:
        return [*HOST_COMMANDS]
    return [name for name in GROUPS if name not in typed] if typed[0] == "bench" else []


def _keys(word: str, known: Mapping[str, Iterable[str]], own: Container[str], config: Any) -> Iterator[str]:
    """Groups, and keys of the part that the word names: a section ends in a dot, a setting in =.

    A group within another needs an option of the outer one; `own` are the groups of the verb.
    """
    above, dot, _ = word.rpartition(".")
    yield from (
        f"{group}="
        for group in known
        if not dot and (group.partition("/")[0] in config if "/" in group else group in own)
    )
    part = OmegaConf.select(config, above) if dot else config
    if OmegaConf.is_dict(part):
        for key, value in part.items_ex(resolve=False):
            yield f"{above}{dot}{key}{'.' if OmegaConf.is_dict(value) else '='}"
    yield from (f"{flag} " for flag in FLAGS if word.startswith("-"))


def _composed(typed: list[str]) -> Any:
    """Compose the configuration of the words typed so far, as far as possible."""
    verb, *words = typed
    with hydra.initialize_config_module("ncc.configs", version_base=None):
        for overrides in ([word for word in words if "=" in word], []):
            try:
                return hydra.compose(verb, overrides)
            except HydraException:
                continue
    return OmegaConf.create()


def _starting(stem: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(stem)})
