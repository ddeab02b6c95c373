# SPDX-License-Identifier: BSD-3-Clause
"""The page with packetsim in a browser: its figures, its links, and what it says to bad input."""

import fcntl
import random
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.study.play import PAGE
from ncc.study.play.build import MOST_BYTES
from tests.play.page import Page, differing, evaluated
from tests.support.chromium import browser
from tests.support.linux import needs

pytestmark = [needs("em++", "chromium"), pytest.mark.checkout]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "play.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build = [sys.executable, "-m", "ncc.study.play.build"]
        done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield Page(opened)


@pytest.mark.usefixtures("page")
def test_it_is_one_small_file_that_loads_nothing() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert not [mark for mark in ("<link", "<img", " src=", "@import", "url(") if mark in text.partition("<script>")[0]]


@pytest.mark.parametrize("seed", range(4))
def test_its_figures_are_those_of_the_command_that_it_copies(page: Page, tmp_path: Path, seed: int) -> None:
    shown = page.open(page.random_link(seed))
    assert shown is not None, page.words()
    found = evaluated(page.command(), tmp_path)
    assert not differing(shown, found), page.command()


def test_a_parameter_counts_in_the_page_and_in_the_command(page: Page, tmp_path: Path) -> None:
    plain = page.open("kind=dumbbell&n=2&flow=500&a=cubic&b=dctcp")
    shown = page.open("kind=dumbbell&n=2&flow=500&a=cubic&b=dctcp&pa.beta_permille=500")
    assert shown is not None
    assert plain is not None
    assert shown["a"] != plain["a"]
    assert shown["b"] == plain["b"]
    assert not differing(shown, evaluated(page.command(), tmp_path))


def test_ncc_is_ahead_in_an_incast_and_dctcp_shares_more_equally(page: Page) -> None:
    shown = page.open("incast")
    assert shown is not None
    assert shown["a"]["fct_mean_s"] < 0.7 * shown["b"]["fct_mean_s"]
    assert shown["a"]["loss_frac"] == 0 < shown["b"]["loss_frac"]
    shown = page.open("fair")
    assert shown is not None
    assert shown["a"]["jain"] < 0.6
    assert shown["b"]["jain"] > 0.9


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("kind=ring", "no network called"),
        ("n=1", "must be from 2 to 64"),
        ("n=2.5", "whole number"),
        ("n=many", "must be from 2 to 64"),
        ("a=nobody", "no controller called"),
        ("a=dctcp&b=dctcp", "same controller"),
        ("mark=500", "below what a queue can hold"),
        ("mark=0", "needs marked packets"),
        ("colour=red", "does not know"),
        ("pa.nothing=1&a=dctcp&b=cubic", "no parameter called"),
        ("a=gemini&pa.capacity_mbps=0", "whole number from 1 to"),
        ("n", "name=value"),
        ("kind=rack&load=10&time=5&rate=0.1&uplink=0.1", "No flow arrives"),
        ("%E0%A4%A", "damaged"),
        ("__proto__=1", "does not know"),
        ("pa.__proto__=1", "no parameter called"),
    ],
)
def test_a_bad_link_gets_an_answer_in_words(page: Page, link: str, words: str) -> None:
    assert page.open(link) is None
    assert words in page.words()


def test_a_long_run_asks_first(page: Page) -> None:
    assert page.open("n=64&size=2000&rounds=20") is None
    assert "seconds" in page.words()


def damaged(link: str, rng: random.Random) -> str:
    """Return a link with some letters put in, left out or changed."""
    letters = list(link)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(letters) + 1)
        letters[at : at + rng.randint(0, 3)] = rng.choices(string.printable[:95] + "%&=.-µ", k=rng.randint(0, 3))
    return "".join(letters)


def test_no_damaged_link_freezes_the_page(page: Page) -> None:
    rng = random.Random(1)
    for _ in range(40):
        link = damaged("kind=incast&n=4&size=8&rounds=1&gap=20&rate=1&period=100&seed=1&a=cubic&b=dctcp", rng)
        assert page.open(link) is not None or page.words(), link
