# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host unit``: a unit by which systemd runs the agent, with no more rights than the agent uses."""

import argparse
import re
import sys
from collections.abc import Sequence

from ncc.core.errors import ConfigError
from ncc.host.options import run_options

CAPABILITIES = ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")
REALTIME = "CAP_SYS_NICE"
CREDENTIAL = "key"
"""By this name the unit hands the key over, in a file that only the agent may read."""
WATCHDOG_S = 5
"""An agent that says nothing for so long hangs; the kernel's program has lifted its limits long before."""
TEMPORARY = ("/tmp", "/var/tmp")
"""Of which the service has its own."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./\[\]*-]+", re.ASCII)


def unit(options: argparse.Namespace) -> int:
    """Print it; always 0, errors as `unit_text`."""
    arguments = list(options.arguments)
    print(unit_text(arguments[1:] if arguments[:1] == ["--"] else arguments), end="")
    return 0


def unit_text(arguments: Sequence[str], python: str = sys.executable) -> str:
    """The text of a service that runs the agent with these arguments, by this interpreter.

    Raises:
        ConfigError: an argument that no unit can have, or one for a trial; what `run` does not know is refused as by
            `run`.
    """
    parser = argparse.ArgumentParser(prog="ncc host unit", allow_abbrev=False)
    run_options(parser)
    asked = parser.parse_args(list(arguments))
    if asked.seconds is not None:
        raise ConfigError("--seconds ends the agent by itself, and a service goes on: leave it out")
    if asked.replay is not None:
        raise ConfigError("--replay decides on what was recorded, and a service is of this host: leave it out")
    policy = asked.policy.absolute()
    if any(path.is_relative_to(folder) for path in (policy, policy.resolve()) for folder in TEMPORARY):
        raise ConfigError(f"{policy} is temporary, and the service would not see it: put it elsewhere, as in /etc/ncc")
    words = ["-m", "ncc.host", "run", *_located(arguments, asked)]
    if strange := next((word for word in words if not word.isprintable()), None):
        raise ConfigError(f"a unit cannot hold the argument {strange!r}: leave out what cannot be printed")
    # As isolated as Python can be: neither the environment nor the current folder adds a module.
    command = " ".join(_quoted(word) for word in (python, "-I", *words))
    rights = [*CAPABILITIES, *([REALTIME] if asked.realtime else [])]
    name = "(dry run) " if asked.dry_run else ""
    key = [] if asked.key is None else [f"LoadCredential={CREDENTIAL}:{_specified(str(asked.key.absolute()))}"]
    lines = [
        "# SPDX-License-Identifier: BSD-3-Clause",
        "# Written by ncc host unit. Put it into /etc/systemd/system/ncc-host.service, then",
        "# systemctl daemon-reload && systemctl enable --now ncc-host",
        "[Unit]",
        f"Description=ncc {name}limits this host's connections by a policy",
        "Wants=network-online.target time-sync.target",
        "After=network-online.target time-sync.target",
        f"AssertPathExists={_specified(str(policy))}",
        "StartLimitIntervalSec=300",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"WatchdogSec={WATCHDOG_S}",
        f"ExecStart={command}",
        *key,
        *([f"ExecStopPost={_quoted(python)} -I -m ncc.host restore"] if asked.default else []),
        "Restart=on-failure",
        "# What cannot be asked will not be possible the next time either.",
        "RestartPreventExitStatus=2",
        "RestartSec=5",
        "TimeoutStopSec=10",
        "KillMode=mixed",
        "OOMScoreAdjust=-500",
        *([] if asked.realtime else ["RestrictRealtime=yes"]),
        "",
        "# What the agent needs: to load programs, to let them read the kernel's structures, to register a controller"
        + (" and set sysctls." if asked.default else "."),
        f"CapabilityBoundingSet={' '.join(rights)}",
        "SystemCallFilter=@system-service bpf",
        "SystemCallErrorNumber=EPERM",
        "SystemCallArchitectures=native",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX",
        "ProtectSystem=strict",
        "# Of its lock, /run/ncc-linux.lock.",
        "ReadWritePaths=/run",
        "ProtectHome=read-only",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        *([] if asked.default else ["ProtectKernelTunables=yes"]),
        *(
            f"{name}=yes"
            for name in (
                "NoNewPrivileges", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups", "ProtectClock",
                "ProtectHostname", "RestrictNamespaces", "RestrictSUIDSGID", "LockPersonality",
            )
        ),
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _located(arguments: Sequence[str], asked: argparse.Namespace) -> list[str]:
    """The arguments with whole paths, and the key where systemd puts it."""
    changed, after_key, policy = [], False, str(asked.policy)
    for word in arguments:
        if after_key:
            word, after_key = f"${{CREDENTIALS_DIRECTORY}}/{CREDENTIAL}", False  # noqa: PLW2901
        elif word == "--key":
            after_key = True
        elif word.startswith("--key="):
            word = f"--key=${{CREDENTIALS_DIRECTORY}}/{CREDENTIAL}"  # noqa: PLW2901
        elif word == policy:
            word, policy = str(asked.policy.absolute()), ""  # noqa: PLW2901
        changed.append(word)
    return changed


def _specified(text: str) -> str:
    """As systemd reads it: % begins a specifier."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line (systemd.service(5)), of which only the credentials' folder is to be filled in."""
    folder = "${CREDENTIALS_DIRECTORY}"
    if _PLAIN.fullmatch(word.replace(folder, "")):
        return word
    escaped = _specified(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return '"' + escaped.replace("$" + folder, folder) + '"'
