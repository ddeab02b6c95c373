# SPDX-License-Identifier: BSD-3-Clause
"""In a real browser, as wide as a phone: nothing sticks out, every picture is drawn, nothing is complained of."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE_PX, DESK_PX = 390, 1280
FRAME = """<!DOCTYPE html><title>frame</title><body><script>
function look(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  document.body.dataset.found = JSON.stringify({
    inside: root.clientWidth, needed: root.scrollWidth, title: page.title,
    pictures: [...page.querySelectorAll("svg")].map(svg => [svg.clientWidth, svg.clientHeight]),
    boxes: [...page.querySelectorAll(".scroll")].map(box => box.getBoundingClientRect().right),
  });
}
</script><iframe src="page.html" style="border:0;width:%dpx;height:900px" onload="look(this)"></iframe>"""


NO_CHROMIUM = "chromium is not installed (apt-get install chromium)"


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("width_px", [PHONE_PX, DESK_PX])
def test_nothing_sticks_out(page: Path, tmp_path: Path, width_px: int) -> None:
    assert CHROMIUM is not None
    shutil.copy(page, tmp_path / "page.html")
    (tmp_path / "frame.html").write_text(FRAME % width_px)
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files", "--hide-scrollbars",
            "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told is not None, done.stdout
    found = json.loads(unescape(told[1]))
    assert found["title"].startswith("Report: rack")
    assert found["inside"] == width_px
    assert found["needed"] <= width_px
    assert len(found["pictures"]) >= 5
    assert all(100 < wide < width_px and tall > 50 for wide, tall in found["pictures"])
    assert max(found["boxes"]) <= width_px
    assert "CONSOLE" not in done.stderr, done.stderr
