# SPDX-License-Identifier: BSD-3-Clause
"""In a real browser, as wide as a phone: nothing sticks out, every picture is drawn, nothing is complained of."""

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.support.chromium import PATIENCE_S, browser
from tests.support.linux import needs

PHONE_PX, DESK_PX = 390, 1280
FRAME = """<!DOCTYPE html><title>frame</title><body><script>
function look(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  const shown = [...page.querySelectorAll("svg")].filter(svg => svg.getClientRects().length);
  document.body.dataset.found = JSON.stringify({
    inside: root.clientWidth, needed: root.scrollWidth, title: page.title,
    pictures: shown.map(svg => [svg.clientWidth, svg.clientHeight]),
    letters: Math.min(...shown.flatMap(svg => [...svg.querySelectorAll("text")].map(text =>
      parseFloat(frame.contentWindow.getComputedStyle(text).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width))),
    boxes: [...page.querySelectorAll(".scroll")].map(box => box.getBoundingClientRect().right),
  });
}
</script><iframe src="page.html" style="border:0;width:%dpx;height:900px" onload="look(this)"></iframe>"""


@needs("chromium")
@pytest.mark.parametrize("width_px", [PHONE_PX, DESK_PX])
def test_nothing_sticks_out(page: Path, tmp_path: Path, width_px: int) -> None:
    shutil.copy(page, tmp_path / "page.html")
    (tmp_path / "frame.html").write_text(FRAME % width_px)
    (profile := tmp_path / "profile").mkdir()
    with browser(profile, "--allow-file-access-from-files", "--hide-scrollbars", "--enable-logging=stderr") as opened:
        opened.call("Page.navigate", url=(tmp_path / "frame.html").as_uri())
        until = time.monotonic() + PATIENCE_S
        while not (text := opened.evaluate("document.body && document.body.dataset.found")):
            assert time.monotonic() < until, "the report does not load"
            time.sleep(0.05)
    found = json.loads(text)
    assert found["title"].startswith("Report: rack")
    assert found["inside"] == width_px
    assert found["needed"] <= width_px
    assert len(found["pictures"]) >= 5
    assert all(100 < wide < width_px and tall > 50 for wide, tall in found["pictures"])
    assert found["letters"] >= 9, "pixels of the smallest text of a picture"
    assert max(found["boxes"]) <= width_px
    assert "CONSOLE" not in (log := (profile / "log").read_text()), log
