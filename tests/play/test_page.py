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


def test_fractions_of_a_nanosecond_are_cut_alike(page: Page, tmp_path: Path) -> None:
    link = "kind=incast&n=3&size=9.0004&rounds=3&gap=1.0000003&delay=1.0005&period=33.33333&a=local&b=dctcp"
    shown = page.open(link)
    assert shown is not None, page.words()
    assert not differing(shown, evaluated(page.command(), tmp_path))


def test_pictures_change_nothing_where_packets_arrive_as_a_period_ends(page: Page, tmp_path: Path) -> None:
    link = "kind=dumbbell&a=ncc&b=local&n=32&flow=2000&stagger=0&rate=10&uplink=10&buffer=2000&period=20&seed=9"
    shown = page.open(link)
    assert shown is not None
    assert not differing(shown, evaluated(page.command(), tmp_path))


def test_short_flows_have_pictures_and_steps_reach_the_end_of_the_longer_run(page: Page) -> None:
    walk = """(() => {
      const kept = drawMoment, times = [];
      drawMoment = () => times.push(nowMs);
      for (let left = 5000; left && nowMs < lastMs; --left) stepBy(1);
      drawMoment = kept;
      return [times, lastMs, Math.min(...[sides.a, sides.b].map(({ result }) => picturesOf(result)))];
    })()"""
    for link in ("n=2&size=1&gap=100&period=20", "incast"):
        assert page.open(link) is not None
        times, last, pictures = page.browser.evaluate(walk)
        assert pictures > 50
        assert times[-1] == last
        assert times == sorted(set(times))


def test_what_the_engine_refuses_comes_as_words(page: Page) -> None:
    wrong = """(async () => {
      const engine = await new Function(`${ENGINE}; return packetsim`)()(), play = new engine.Play();
      const { settings } = planOf(stateOf("fair"), FACTS, "b");
      settings.spec.transport = "nothing";
      return play.start(settings);
    })()"""
    assert "nothing" in page.browser.evaluate(wrong)


def test_an_earlier_result_is_shown_as_such(page: Page) -> None:
    assert page.open("n=2&size=8") is not None
    before = page.browser.evaluate("$('progress').hidden = false; lastMs")
    page.browser.evaluate("Object.assign(state, { n: 1, period: 2000 }); run(false); setTheme(true); setTheme(false)")
    look = "[$('results').className, $('progress').hidden, $('verdict').textContent, $('preset').value, shown.period]"
    verdict = "No result for these settings. Below is the result before."
    assert page.browser.evaluate(look) == ["old", True, verdict, "", 100]
    assert page.browser.evaluate("$('command').click(); $('message').textContent") == page.words() != ""
    assert page.browser.evaluate("lastMs") == before
    assert page.open("n=2&size=8") is not None
    assert page.browser.evaluate("$('results').className") == ""


def test_a_stopped_run_can_be_run_again(page: Page) -> None:
    page.browser.evaluate("openLink(); stop()")
    assert page.result() is None
    assert "stopped" in page.words()
    page.browser.evaluate("document.activeElement.click()")
    assert page.result() is not None


def test_a_browser_that_refuses_to_change_the_address_runs_all_the_same(page: Page) -> None:
    refuses = "history.replaceState = () => { throw new Error('too often') }"
    page.browser.evaluate(f"{refuses}; Object.assign(state, {{ n: 3 }}); run(false); delete history.replaceState")
    assert page.result() is not None


def test_the_keyboard_keeps_its_place(page: Page) -> None:
    assert page.open("n=2&size=8") is not None
    chosen = """(() => {
      $("settings").open = true;
      const pick = $("form").querySelector("select");
      pick.focus();
      pick.value = "rack";
      pick.onchange();
      return document.activeElement.value;
    })()"""
    assert page.browser.evaluate(chosen) == "rack"
    page.browser.evaluate("$('command').focus()")
    for kind in ("rawKeyDown", "char", "keyUp"):
        page.browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")
    copied = "new Promise((go) => setTimeout(() => go([document.activeElement.id, $('toast').textContent]), 100))"
    assert page.browser.evaluate(copied) == ["command", "The command is copied: it prints the same numbers."]


def test_all_that_a_screen_reader_meets_has_a_name(page: Page) -> None:
    assert page.open("kind=dumbbell&n=2&flow=100&a=cubic&b=gemini") is not None
    page.browser.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    nodes = page.browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "slider", "spinbutton", "combobox", "image", "table", "DisclosureTriangle")
    met = [(n["role"]["value"], n.get("name", {}).get("value")) for n in nodes if not n["ignored"]]
    assert len({name for role, name in met if role == "combobox"}) == 5
    assert not [role for role, name in met if role in roles and not name]


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
        ("incst", "one of incast"),
        ("pa.beta_permille=&a=cubic&b=dctcp", "does not know"),
        ("pa.beta_permille.x=600&a=cubic&b=dctcp", "does not know"),
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
