# SPDX-License-Identifier: BSD-3-Clause
"""Open a page with two controllers side by side, in a browser.

`ncc play` opens it, and `ncc play "kind=rack&a=ncc&b=dctcp"` opens it with the settings of a link, the part after #.
"""

import sys
import webbrowser
from collections.abc import Sequence
from urllib.parse import quote

from ncc.core.errors import ConfigError
from ncc.core.options import Parser, exit_status
from ncc.study.play import PAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the page; exit status 2 if it is not built."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc play", description=__doc__)
    parser.add_argument("settings", nargs="?", default="", help="settings of a link: the part after #")
    options = parser.parse_args(arguments)
    if not PAGE.is_file():
        raise ConfigError("the page is not built: run `make play` in a checkout, which needs the package emscripten")
    settings = options.settings.rpartition("#")[2]  # of a whole link, too
    address = PAGE.as_uri() + (f"#{quote(settings, safe='=&.%')}" if settings else "")
    print(address)
    if not webbrowser.open(address):
        print("No browser was found here: open this address in one.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
