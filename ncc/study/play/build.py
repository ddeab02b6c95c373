# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.study.play.build``: the page, one file with script, style and the engine as WebAssembly within it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ncc
from ncc.core.errors import ConfigError
from ncc.core.options import exit_status
from ncc.harness.atomic import write_text
from ncc.study.play import PAGE

CHECKOUT = Path(ncc.__file__).resolve().parent.parent
SOURCES = Path(__file__).with_name("page")
MOST_BYTES = 1_000_000
"""Size limit of the page."""
BOTH = ("network.js", "scenario.js", "metrics.js")
"""Scripts that the worker and the page have."""
OWN = ("command.js", "presets.js", "draw.js", "controls.js", "page.js")
"""Scripts that only the page has."""


def engine(folder: Path) -> str:
    """Build packetsim for browsers in `folder`, and return the script that loads it.

    Raises:
        ConfigError: emscripten is missing, or does not build it.
    """
    if shutil.which("em++") is None or shutil.which("emcmake") is None:
        raise ConfigError("em++ is missing, which builds the simulator for browsers: install the package emscripten")
    folder.mkdir(parents=True, exist_ok=True)
    sources = CHECKOUT / "envs" / "packetsim" / "web"
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "cmake"
    settings = ("-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}")
    for command in (
        ["emcmake", cmake, "-S", str(sources), "-B", str(folder), *settings],
        [cmake, "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0)))],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigError(f"emscripten could not build the page's engine: {(done.stdout + done.stderr)[-3000:]}")
    return (folder / "play.js").read_text(encoding="utf-8")


def page(script: str) -> str:
    """Return the page as HTML; `script` loads the engine."""
    from ncc.study.play.facts import facts

    parts = {path.name: path.read_text(encoding="utf-8") for path in SOURCES.iterdir()}
    known = f"const FACTS = {json.dumps(facts(), separators=(',', ':'))};"
    worker = "\n".join([*(parts[name] for name in (*BOTH, "worker.js")), script])
    scripts = "\n".join([f"const ENGINE = {json.dumps(worker)};", known, *(parts[name] for name in (*BOTH, *OWN))])
    html = parts["page.html"]
    for mark, text in (
        ("/* style */", parts["page.css"]),
        ("/* script */", scripts.replace("</script", "<\\/script")),
    ):
        html = html.replace(mark, text)
    return html


def main() -> int:
    """Build the page; exit status 2 if a program is missing."""
    return exit_status(_main)


def _main() -> int:
    html = page(engine(CHECKOUT / "build" / "play"))
    if (size := len(html.encode())) > MOST_BYTES:
        raise ConfigError(f"the page has {size:,} bytes, and at most {MOST_BYTES:,} are allowed: take something out")
    write_text(PAGE, html)
    print(f"Written to {PAGE}: {size:,} bytes. Open it with: ncc play")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
