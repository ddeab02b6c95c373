# SPDX-License-Identifier: BSD-3-Clause
"""A page with packetsim in it: two controllers side by side in a browser, without an installation."""

from pathlib import Path

PAGE = Path(__file__).resolve().with_name("play.html")
"""The built page; `make play` writes it."""
