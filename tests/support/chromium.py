# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium that runs scripts in one page, through its debugging pipe."""

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
"""Path of the browser; None: there is none."""
PATIENCE_S = 300.0
"""Time after which a browser without an answer counts as dead."""


class Browser:
    """A page of a browser. `folder` holds its profile."""

    def __init__(self, folder: Path, *options: str) -> None:
        assert CHROMIUM is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = (
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={folder}", "--remote-debugging-pipe", *options, "about:blank",
        )  # fmt: skip

        # Chromium reads from descriptor 3 and writes to 4, which the shell sets.
        line = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ("bash", "-c", line, "bash", *command), stdout=log, stderr=log, pass_fds=(to_browser, from_browser)
            )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest = 0, b""
        targets = self.call("Target.getTargets", session="")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", session="", targetId=page, flatten=True)["sessionId"]

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Call a method of the debugging protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if where := self._session if session is None else session:
            message["sessionId"] = where
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            line, found, rest = self._rest.partition(b"\0")
            if not found:
                if not select.select([self._read], [], [], max(until - time.monotonic(), 0))[0]:
                    raise TimeoutError(f"the browser does not answer to {method}")
                if not (more := os.read(self._read, 1 << 20)):
                    raise ConnectionError("the browser ended")
                self._rest += more
                continue
            self._rest, answer = rest, json.loads(line)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript; if it is a promise, what it resolves to."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"].get("exception", {}).get("description", done)))
        return done["result"].get("value")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)


@contextmanager
def browser(folder: Path, *options: str) -> Iterator[Browser]:
    """Open a browser, and end it at the end."""
    opened = Browser(folder, *options)
    try:
        yield opened
    finally:
        opened.close()
