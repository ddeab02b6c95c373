# SPDX-License-Identifier: BSD-3-Clause
"""Completion of command lines of ``ncc``, for bash and zsh: ``eval "$(ncc --completion bash)"``."""

import re
from collections.abc import Iterable
from pathlib import Path

import hydra
from hydra._internal.core_plugins.bash_completion import BashCompletion
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException

from ncc.agents.policy import packaged_names
from ncc.cli.help import written
from ncc.cli.verbs import VERBS
from ncc.core.errors import NccError
from ncc.harness.manifest import MANIFEST
from ncc.host.__main__ import COMMANDS as HOST_COMMANDS
from ncc.run.compose import register
from ncc.run.config_files import PACKAGE, typed_config_dir, use_config_dir
from ncc.run.controllers import controller_names

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
"""Script for a shell to evaluate, by the shell's name."""
RUNS = {"run": MANIFEST, "resume": "config.json"}
"""Keys whose value is a run folder, each with a file that such a folder has; only finished runs have a manifest."""
CONTROLLERS = ("controller", "evaluation.controllers", "reference", "timeline", "fallback")
FLAGS = ("--help", "--version")


def candidates(line: str) -> list[str]:
    """List the completions of the last word of a command line; empty where the shell is to complete files.

    This module completes the names of controllers, run folders and policies, which no configuration lists. Hydra
    completes everything else. A candidate that ends in a blank is a complete word.
    """
    *before, word = line.split(" ")
    typed = [part for part in before[1:] if part]
    if not typed:
        return _starting(word, [f"{name} " for name in (*VERBS, *FLAGS, "--completion")])
    verb = typed[0]
    if word.startswith("-"):
        return _starting(word, [f"{name} " for name in FLAGS])
    if not (PACKAGE / f"{verb}.yaml").exists():
        return _starting(word, [f"{name} " for name in HOST_COMMANDS]) if typed == ["host"] else []
    try:
        register()
        use_config_dir(typed_config_dir(typed))
        key, _, value = word.partition("=")
        return _named(key, value) or _by_hydra(verb, " ".join([*typed[1:], word]))
    except (NccError, HydraException, SystemExit):  # SystemExit is for an option that Hydra does not have
        return []


def _named(key: str, value: str) -> list[str]:
    """Complete a value that names controllers, run folders or policies; in a list, complete its last name."""
    if key in CONTROLLERS:
        options = [*controller_names(), *(["list"] if key == "controller" else [])]
    elif key in RUNS:
        options = [str(path.parent) for path in Path("runs").glob(f"*/{RUNS[key]}")]
    else:
        options = [*packaged_names()] if key == "policy" else []
    cut = max(value.rfind("["), value.rfind(",")) + 1
    return [f"{key}={value[:cut]}{name}{'' if cut else ' '}" for name in _starting(value[cut:], options)]


def _by_hydra(verb: str, words: str) -> list[str]:
    """Let Hydra complete groups, options, keys and values; keep those of the verb's configuration."""
    groups, keys = written(verb)
    heads = {*groups, *(key.partition(".")[0] for key in keys)}
    with hydra.initialize_config_module("ncc.configs", version_base=None):
        found = BashCompletion(GlobalHydra.instance().config_loader())._query(verb, words)
    own = [each for each in found if re.split(r"[=./]", each.lstrip("+~"))[0] in heads]
    return [f"{each} " if "=" in each[:-1] else each for each in own]


def _starting(stem: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(stem)})
