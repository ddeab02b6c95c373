# SPDX-License-Identifier: BSD-3-Clause
"""The page in a browser: random settings, runs of them, and the same runs by `ncc evaluate`."""

import json
import math
import random
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.metrics.catalogue import CATALOGUE
from ncc.study.play import PAGE
from tests.mains.commands import here
from tests.support.chromium import Browser

BOUND = "bound_s"
"""Key of the page's metrics with the mean FCT of the SRPT bound."""
PATIENCE_S = 120.0
MOST: Mapping[str, float] = {
    "n": 32, "size": 150, "rounds": 2, "flow": 2000, "time": 50, "period": 1000, "shared": 1000,
}  # fmt: skip
"""Largest values of random settings, so that runs are short."""
CHANGED_FRAC = 0.3
"""Part of the parameters that random settings change."""
LEAST: Mapping[str, float] = {"rate": 0.5, "uplink": 0.5, "load": 40, "period": 50, "time": 30}


class Page:
    """The built page, opened in a browser."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        browser.call("Page.enable")
        browser.call("Page.navigate", url=PAGE.as_uri())
        self.result()

    def result(self) -> dict[str, dict[str, float]] | None:
        """Wait for the run that was asked for last; return the metrics of both sides, None if it was refused."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            over = "typeof state === 'object' && document.body.dataset.answered === String(asked)"
            if self.browser.evaluate(over):
                text: str | None = self.browser.evaluate(
                    "document.body.dataset.refused ? null : JSON.stringify([sides.a.metrics, sides.b.metrics])"
                )
                if text is None:
                    return None
                shown = [{k: math.nan if v is None else v for k, v in of.items()} for of in json.loads(text)]
                return dict(zip("ab", shown, strict=True))
            time.sleep(0.01)
        raise TimeoutError(f"the page shows no result: {self.words()}")

    def words(self) -> str:
        """Return what the page says to the user."""
        said: str = self.browser.evaluate("document.getElementById('message').textContent")
        return said

    def open(self, link: str) -> dict[str, dict[str, float]] | None:
        """Open a link's settings, without loading the page anew; return what `result` returns."""
        self.browser.evaluate(f"history.replaceState(null, '', '#' + {json.dumps(link)}); openLink()")
        return self.result()

    def random_link(self, seed: int) -> str:
        """Return a link with random settings that the page can run."""
        rng = random.Random(seed)
        of = "filter((one) => one.name !== 'mine').map((one) => [one.name, one.params])"
        names, switches = (self.browser.evaluate(f"FACTS.{table}.{of}") for table in ("contenders", "switches"))
        while True:
            kind = rng.choice(("incast", "rack", "dumbbell"))
            picks = {"a": rng.choice([names[0], rng.choice(names)]), "b": rng.choice(names)}
            picks |= {key: rng.choice([switches[0], rng.choice(switches)]) for key in ("sa", "sb")}
            parts = [f"kind={kind}", *(f"{key}={name}" for key, (name, _) in picks.items())]
            for key, (_, params) in picks.items():
                for one in params:
                    if rng.random() < CHANGED_FRAC:
                        near = round((one["default"] or 1) * 4 ** rng.uniform(-1, 1))
                        parts.append(f"p{key}.{one['name']}={min(max(near, one['min']), one['max'])}")
            for name, least, most, step, *_ in self.browser.evaluate(f"settingsOf({kind!r})"):
                low, high = max(least, LEAST.get(name, least)), min(most, MOST.get(name, most))
                at = rng.uniform(low, high) if rng.random() < 0.5 else low * (high / low) ** rng.random() if low else 0
                parts.append(f"{name}={min(max(round(at / step) * step, low), high):.6g}")
            link = "&".join(parts)
            if self.browser.evaluate(
                f"(() => {{ try {{ planOf(stateOf({link!r}), FACTS, 'a'); return 1 }} catch {{}} }})()"
            ):
                return link

    def command(self) -> str:
        """Return what the button for the command copies."""
        text: str = self.browser.evaluate("commandOf(state, FACTS)")
        return text


def evaluated(command: str, folder: Path) -> list[dict[str, Any]]:
    """Do what a copied command does, in this process; return the figures of each side, with that of the bound."""
    scenario, _, lines = command.partition("<<'END'\n")[2].partition("\nEND\n")
    sides = []
    for number, line in enumerate(lines.splitlines()):
        where = folder / str(number)
        where.mkdir(parents=True)
        (where / "play.yaml").write_text(scenario)
        verb, name, *arguments = shlex.split(line)
        assert (verb, name) == ("ncc", "evaluate")
        done = here("evaluate", *arguments, cwd=where)
        assert done.returncode == 0, done.stderr
        (path,) = where.glob("runs/*/comparison.json")
        found = json.loads(path.read_text())["comparisons"]["packetsim"]
        bound = found["bounds"]["srpt_bound"]["fct_mean_s"]
        sides += [found["values"][name] | {BOUND: bound} for name in found["controllers"]]
    return sides


def differing(shown: Mapping[str, Mapping[str, float]], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the figures of the page that differ in a digit from those of `ncc evaluate`."""
    wrong = []
    for side, values in zip("ab", found, strict=True):
        for key, value in shown[side].items():
            metric = CATALOGUE["fct_mean_s" if key == BOUND else key]
            other = values[key]
            expected = math.nan if other[0] is None else other[0]
            if metric.text(value) != metric.text(expected):
                wrong.append(f"{side} {key}: {value} and {expected}")
    return wrong
