# SPDX-License-Identifier: BSD-3-Clause
"""Change of a running agent's options, policy file and keys between two periods, with its limits in force all along."""

import argparse
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.core.options import Parser
from ncc.core.units import to_ns
from ncc.envs.linux import machine
from ncc.envs.linux.queue import OPEN
from ncc.host.agent import Agent
from ncc.host.config_file import expanded
from ncc.host.exchange import Exchange, UdpExchange
from ncc.host.guard import Guard
from ncc.host.log import Log
from ncc.host.neighbourhood import Neighbourhood, limiter_of, outside_of
from ncc.host.peers import rows_of
from ncc.host.plan import LATE_PERIODS, Plan, add_options, planned

if TYPE_CHECKING:
    from ncc.host.loop import Loop


Read = tuple[argparse.Namespace, Plan, Neighbourhood]
"""Options, and the plan and neighbourhood made from them."""
FIXED = ("interface", "address", "netns", "port", "receivers", "send_buffer", "default", "name", "dry_run",
          "heartbeat_s", "seconds", "realtime", "metrics", "log_s")  # fmt: skip
"""Options that change only by a restart."""


class InForce:
    """The options and the plan of a running agent. `read_again` and `take` replace both, or neither.

    Args:
        options: options of ``run``; ``given`` are its arguments.
        plan: plan that was made of them.
        log: log that is told of each change.
        undo: stack that closes what a change opens.

    Attributes:
        options: options in force.
        plan: plan in force.
        outside: facts of the network for which hosts have the limits of the formula LOCAL, as text; empty: none.
        fixed: options that change only by a restart, with their values.
        refused: reason for which the last change was refused; empty: it was not.
        counters: numbers of changes: `taken` and `refused`.
    """

    def __init__(self, options: argparse.Namespace, plan: Plan, log: Log, undo: ExitStack) -> None:
        self.options, self.plan, self._log, self._undo = options, plan, log, undo
        self.outside = self.refused = ""
        self.fixed = fixed_options(options) | fixed_plan(plan)
        self.counters = {"taken": 0, "refused": 0}
        self._reading: Future[Read] | None = None

    def look(self) -> None:
        """Find out whether the policy's correction of a formula counts in this network, and log it if it does not."""
        corrects = self.plan.file.header.action.within is not None
        self.outside = outside_of(self.plan.file, self.plan.network) if corrects else ""
        if self.outside:
            self._log.warning("untrusted", said=f"hosts have the limits of the formula LOCAL: {self.outside}")

    def read_again(self) -> None:
        """Begin to read options, policy file and keys, in a thread that changes nothing."""
        self._reading = Future()
        try:
            threading.Thread(target=self._read_into, args=(self._reading,), daemon=True).start()
        except RuntimeError as error:  # the machine has no room for a thread, and the limit has to hold nevertheless
            self._reading.set_exception(DatapathError(f"nothing was read ({error}); reload again"))

    @property
    def reads(self) -> bool:
        """True from `read_again` until `take` has accepted or refused the new options."""
        return self._reading is not None

    def take(self, loop: "Loop") -> bool:
        """Apply the new options, if they are complete; return True if the loop's agent decides by them from now on."""
        if self._reading is None or not self._reading.done():
            return False
        reading, self._reading = self._reading, None
        try:
            options, plan, neighbourhood = reading.result()
            loop.agent, self.plan = self._taken(options, plan, neighbourhood, loop.agent)
        except (NccError, OSError) as error:
            self.refused = str(error)
            self.counters["refused"] += 1
            self._log.warning("config", said=f"{self.refused}; the agent goes on as before")
            return False
        self.options, self.refused = options, ""
        self.counters["taken"] += 1
        said = "options, policy and keys were read again and are in force"
        self._log.info("config", said=said, policy=self.plan.file.header.name, sha256=self.plan.file.sha256)
        self.look()
        return True

    def _read_into(self, reading: "Future[Read]") -> None:
        try:
            machine.go_second()
            reading.set_result(self._read())
        except BaseException as error:  # noqa: BLE001
            reading.set_exception(error)

    def _read(self) -> Read:
        options = parsed(self.options.given)
        _refuse(refusal(self.fixed, fixed_options(options)))
        plan = planned(options, self.plan)
        _refuse(refusal(self.fixed, fixed_plan(plan)))
        return options, plan, neighbourhood_of(plan)

    def _taken(
        self, options: argparse.Namespace, plan: Plan, neighbourhood: Neighbourhood, before: Agent
    ) -> tuple[Agent, Plan]:
        """Return an agent that goes on by a new plan where another one of these hosts ends, and the plan in force."""
        names = ("peers", "uplink", "key")
        if all(getattr(options, name) == getattr(self.options, name) for name in names):
            exchange = before.exchange
            if self.plan.keys is not None and plan.keys is not None:
                self.plan.keys.take(plan.keys)
            plan = replace(plan, keys=self.plan.keys)  # those of the exchange
        else:
            exchange = exchange_of(plan, options.receivers, before.exchange)
            self._undo.callback(exchange.close)
            if not options.dry_run:
                exchange.prioritise(OPEN)
        agent = Agent(neighbourhood, guard_of(plan, neighbourhood, self._log), exchange, in_force=not options.dry_run)
        agent.follow(before)
        return agent, plan


def _refuse(why: str) -> None:
    if why:
        raise ConfigError(why)


def neighbourhood_of(plan: Plan) -> Neighbourhood:
    """Return the decider for the local hosts of a plan."""
    return Neighbourhood(limiter_of(plan.file), plan.network.scenario(), *rows_of(plan.own, plan.peers))


def guard_of(plan: Plan, neighbourhood: Neighbourhood, log: Log) -> Guard:
    """Return the guard of a plan's hosts."""
    return Guard(
        plan.guard,
        plan.bounds,
        neighbourhood.link_bps,
        neighbourhood.fair_bps,
        lambda said: log.warning("guard", said=said),
    )


def exchange_of(plan: Plan, receivers_bytes: int | None, before: Exchange | None = None) -> Exchange:
    """Return the exchange with a plan's peers and uplink; without either, one that sends and receives nothing.

    Args:
        plan: the plan.
        receivers_bytes: option ``--receivers``.
        before: exchange that is to end. Its socket goes on, and no message is lost.

    Raises:
        ConfigError: a peer has no key, or the address cannot be used; `before` goes on.
        DatapathError: the port is in use; `before` goes on.
    """
    if plan.keys is None:
        if before is not None:
            before.close()
        return Exchange()
    return UdpExchange(
        plan.keys,
        plan.own,
        plan.peers,
        uplink=plan.uplink,
        late_ns=to_ns(LATE_PERIODS * plan.network.period_s),
        buffer_bytes=receivers_bytes,
        before=before if isinstance(before, UdpExchange) else None,
    )


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of ``ncc host run`` after this command; read the file of `FLAG` anew.

    Raises:
        ConfigError: they are invalid, or the file cannot be read.
    """
    parser = Parser(prog="ncc host run", add_help=False)  # help would end the agent
    add_options(parser)
    options = parser.parse_args(expanded(["run", *arguments])[1:])
    options.given = tuple(arguments)
    return options


def fixed_options(options: argparse.Namespace) -> dict[str, str]:
    """Return the options that change only by a restart, with their values as text."""
    found = {f"--{name.replace('_', '-')}": str(getattr(options, name)) for name in FIXED}
    if options.receivers is not None:
        found |= {f"--{name} beside --receivers": str(getattr(options, name)) for name in ("peers", "uplink", "key")}
    return found


def fixed_plan(plan: Plan) -> dict[str, str]:
    """Return the facts of a plan that change only by a restart, by the option that sets each."""
    return {
        "--link-rate": f"{plan.network.link_rate_bps:g}",
        "--period": f"{plan.network.period_s:g}",
        "a policy of another transport or order": str(plan.file.header.stack),
    }


def refusal(before: dict[str, str], after: dict[str, str]) -> str:
    """Return a sentence that names the options that differ and need a restart; empty if there are none."""
    if not (changed := [name for name, value in after.items() if before.get(name, value) != value]):
        return ""
    verb = "changes" if len(changed) == 1 else "change"
    return f"{', '.join(changed)} {verb} only by a restart (systemctl restart ncc-host)"
