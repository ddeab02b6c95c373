# SPDX-License-Identifier: BSD-3-Clause
"""The page in a browser: random settings, runs of them, and the same runs by `ncc evaluate`."""

import json
import math
import random
import shlex
import time
from collections.abc import Mapping
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
        names = self.browser.evaluate("FACTS.contenders.map((one) => one.name)")
        while True:
            kind = rng.choice(("incast", "rack", "dumbbell"))
            parts = [f"kind={kind}", f"a={rng.choice(['ncc', rng.choice(names)])}", f"b={rng.choice(names)}"]
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


def evaluated(command: str, folder: Path) -> dict[str, Any]:
    """Do what a copied command does, in this process, and return its comparison on packetsim."""
    scenario, _, line = command.partition("<<'END'\n")[2].partition("\nEND\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "play.yaml").write_text(scenario)
    verb, name, *arguments = shlex.split(line)
    assert (verb, name) == ("ncc", "evaluate")
    done = here("evaluate", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("runs/*/comparison.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found["comparisons"]["packetsim"]  # type: ignore[no-any-return]


def differing(shown: Mapping[str, Mapping[str, float]], found: Mapping[str, Any]) -> list[str]:
    """Return the figures of the page that differ in a digit from those of `ncc evaluate`."""
    wrong = []
    for side, name in zip("ab", found["controllers"], strict=True):
        for key, value in shown[side].items():
            metric = CATALOGUE["fct_mean_s" if key == BOUND else key]
            other = found["bounds"]["srpt_bound"]["fct_mean_s"] if key == BOUND else found["values"][name][key]
            expected = math.nan if other[0] is None else other[0]
            if metric.text(value) != metric.text(expected):
                wrong.append(f"{name} {key}: {value} and {expected}")
    return wrong
