# SPDX-License-Identifier: BSD-3-Clause
"""The page is one valid file without references, and every number in it is that of the sealed results."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ncc.harness.results import load_evaluation
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.judgement import Judgement
from ncc.results.palette import label
from ncc.results.report.sources import read_source
from ncc.results.report.write import ReportSpec, write_report

VOID = {"meta", "link", "br"}
LIMIT_BYTES = 3_000_000


class Reader(HTMLParser):
    """Elements in order, cells of tables as text; fails on what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._rows: list[list[str]] | None = None
        self._caption = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th") and self._rows is not None:
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            assert self._rows is not None
            rows = [[" ".join(cell.split()) for cell in row] for row in self._rows]
            self.tables.setdefault(self._caption, rows)
            self._rows = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if "caption" in self.open:
            self._caption = (self._caption + data).strip()
        elif self._rows and {"td", "th"} & set(self.open):
            self._rows[-1][-1] += data


@pytest.fixture(scope="module")
def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text())
    reader.close()
    return reader


@pytest.fixture(scope="module")
def judgement(trained: Path) -> Judgement:
    return read_source(trained).judgement


def attributes(read: Reader, name: str) -> list[str]:
    return [attrs[name] for _, attrs in read.elements if name in attrs]


def test_every_element_is_closed_and_every_id_is_one(read: Reader, page: Path) -> None:
    assert page.read_text().lstrip().startswith("<!DOCTYPE html>")
    assert not read.open
    ids = attributes(read, "id")
    assert len(ids) == len(set(ids))
    assert {h.removeprefix("#") for h in attributes(read, "href") if h != "data:,"} <= set(ids)
    assert set(attributes(read, "aria-labelledby")) <= set(ids)


def test_the_page_refers_to_nothing_outside(read: Reader, page: Path) -> None:
    assert all(href.startswith("#") or href == "data:," for href in attributes(read, "href"))
    assert not attributes(read, "src")
    assert not {"script", "iframe", "object", "source", "base"} & {tag for tag, _ in read.elements}
    style = page.read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert page.stat().st_size < LIMIT_BYTES


def test_every_picture_is_whole_and_described(read: Reader, page: Path) -> None:
    pictures = [attrs for tag, attrs in read.elements if tag == "svg"]
    assert len(pictures) >= 7
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 40 for attrs in pictures)
    for svg in re.findall(r"<svg role.*?</svg>", page.read_text(), re.DOTALL):
        ET.fromstring(svg)
    links = [value for _, attrs in read.elements for key, value in attrs.items() if key.endswith(":href")]
    assert links
    assert {value.removeprefix("#") for value in links if not value.startswith("data:")} <= set(attributes(read, "id"))


def test_a_pointer_over_a_flow_tells_its_size_and_time(page: Path) -> None:
    assert re.search(r"<g><title>h\d to r\d, [\d,]+ bytes: [\d.e+]+ ms</title>", page.read_text())
    assert "<g><title>DCTCP</title>" in page.read_text()


def test_headings_go_down_one_at_a_time_and_tables_have_captions(read: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in read.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    count = sum(tag == "table" for tag, _ in read.elements)
    assert count == sum(tag == "caption" for tag, _ in read.elements)
    assert [attrs["lang"] for tag, attrs in read.elements if tag == "html"] == ["en"]


def test_the_table_says_what_the_comparison_says(read: Reader, judgement: Judgement) -> None:
    (rows,) = [rows for title, rows in read.tables.items() if title.startswith("rack on packetsim and")]
    names = [*judgement.any.controllers, *judgement.any.bounds]
    assert rows[0][2:] == [label(name) for name in names]
    found = [row for row in rows[1:] if len(row) > 1]
    keys = judgement.any.metrics
    assert len(found) == len(keys) * 2
    for i, key in enumerate(keys):
        for j, datapath in enumerate(judgement.datapaths):
            row = found[2 * i + j]
            assert row[1] == datapath
            cells = [judgement.comparisons[datapath].cell(name, key) for name in names]
            for shown, cell in zip(row[2:], cells, strict=True):
                metric = CATALOGUE[key]
                spread = f" [{metric.text(cell.low)}, {metric.text(cell.high)}]" if cell.low < cell.high else ""
                assert shown.replace("*", "") == metric.text(cell.estimate) + spread


def test_differences_are_paired_and_to_the_reference(read: Reader, judgement: Judgement) -> None:
    title = "Difference to DCTCP, paired by seed, "
    found = [rows for caption, rows in read.tables.items() if caption.startswith(title)]
    (rows,) = [rows for rows in found if any("packetsim" in row[:2] for row in rows)]
    assert rows[0][2:] == [label(name) for name in judgement.any.controllers if name != "dctcp"]
    ours, theirs = (judgement.comparisons["packetsim"].values[name]["goodput_bps"] for name in ("trained", "dctcp"))
    mean = sum(a - b for a, b in zip(ours, theirs, strict=True)) / len(ours)
    (row,) = [row for row in rows if row[0] == "Goodput (Gbps)" and row[1] == "packetsim"]
    assert float(row[2].split()[0].replace("\N{MINUS SIGN}", "-")) == pytest.approx(mean * 1e-9, abs=5e-4)


def test_invalid_runs_are_said_first(read: Reader, invalid: Path) -> None:
    first = read.text.index("Read this first")
    assert first < read.text.index("Overview")
    (run,) = load_evaluation(invalid / "packetsim").of("newreno")
    assert run.problems
    told = read.text[first : read.text.index("Overview")]
    assert f"1 of NewReno's 1 runs, the first on packetsim, seed 0: {run.problems[0]}" in told
    assert "INVALID 1 of 1" in read.text


def test_provenance_and_scenario_are_told(read: Reader, trained: Path) -> None:
    manifest: dict[str, Any] = json.loads((trained / "manifest.json").read_text())
    told = read.text
    for what in (
        str(manifest["provenance"]["git"]["commit"]), manifest["provenance"]["processor"],
        f'"numpy": "{manifest["provenance"]["packages"]["numpy"]}"', "python -m ncc.train", "agent.epochs=120",
        "tor->core (1 Gbit/s)", "4 x h to tor: 1 Gbit/s, 10 µs;", "kind poisson", "sources hosts, destinations remotes",
    ):  # fmt: skip
        assert what in told


def test_a_datapath_alone_and_chosen_names(trained: Path, tmp_path: Path) -> None:
    path = write_report(
        ReportSpec(
            run=(str(trained / "evaluation" / "ns3"),), out=str(tmp_path / "one.html"), reference="fixed_share",
            timeline=("dctcp",), seed=1, title="One <datapath>", windows=True, figures=("pdf", "svg"),
        )
    )  # fmt: skip
    text = path.read_text()
    assert "<h1>One &lt;datapath&gt;</h1>" in text
    assert "Paired differences to fixed share" in text
    assert "<p>Seed 1 on ns3.</p>" in text
    assert "<h3" in text.partition("Paired differences")[0].rpartition("Overview")[2], "one folder needs no overview"
    names = {"slowdown_cdf_ns3", "fct_by_size_ns3", "port", "flows", "windows"}
    files = {path.name: path.read_bytes() for path in (tmp_path / "one_figures").iterdir()}
    assert set(files) == {f"{name}.{form}" for name in names for form in ("pdf", "svg")}
    assert all(data.startswith(b"%PDF" if name.endswith("pdf") else b"<?xml") for name, data in files.items())
