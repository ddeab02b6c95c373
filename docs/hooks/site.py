# SPDX-License-Identifier: BSD-3-Clause
"""Functions that mkdocs calls (`hooks` in mkdocs.yml), in order. `make docs` builds the site."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from docs.hooks import figures, navigation, pages
from docs.hooks.links import Links
from ncc.study.play import PAGE

BEGIN = """
Where to begin:

- `ncc.envs.gym`, `ncc.envs.parallel`, `ncc.envs.vector`: environments;
- `ncc.core.scenario`, `ncc.core.topologies`, `ncc.core.workload`: scenarios;
- `ncc.harness.datapath`, `ncc.harness.controller`, `ncc.harness.learner`: contracts to build against;
- `ncc.harness.results`, `ncc.metrics.summary`, `ncc.results.plot`: runs read, counted and drawn.
"""
"""Modules to start from, shown below the package's docstring."""
PRESET = re.compile(r"`ncc play (\w+)`")
"""A command that opens the page with packetsim in a browser with one of its presets."""
EMBEDDED = "<!-- the page -->"
"""Place of that page in docs/play.md."""
links = Links()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add our Markdown extension for links."""
    config.markdown_extensions.append(links)  # an object instead of a name, as mkdocstrings does
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add files from outside docs/ and generated pages, and the navigation that lists them."""
    pages.tracked.cache_clear()  # `make docs-serve` builds again while files are added and removed
    left_out = {InclusionLevel.EXCLUDED, InclusionLevel.DRAFT}
    addresses = {f"docs/{file.src_uri}": file.src_uri for file in files if file.inclusion not in left_out}
    for path, to in pages.outside().items():
        addresses[path] = to
        files.append(File.generated(config, to, abs_src_path=str(pages.ROOT / path)))
    if PAGE.is_file():
        files.append(File.generated(config, PAGE.name, abs_src_path=str(PAGE)))
    documents = {path for path in addresses if path.endswith(".md")}
    for path, name in pages.modules().items():
        addresses[path] = pages.address(path, name)
        if path.endswith("/__init__.py"):
            addresses[path.removesuffix("/__init__.py")] = addresses[path]
        content = f"---\ntitle: {name}\nsearch:\n  boost: 0.5\n---\n::: {name}\n{BEGIN if name == 'ncc' else ''}"
        files.append(File.generated(config, addresses[path], content=content))
    named = set[str]()
    for path in documents:
        text = (pages.ROOT / path).read_text(encoding="utf-8")
        named |= pages.mentioned(text, str(Path(path).parent))
    for path in sorted(path.rstrip("/") for path in named):
        if path not in addresses:
            addresses[path] = f"source/{path.lstrip('.')}.md"  # mkdocs leaves out names that begin with a dot
            text, aside = pages.source_page(path), InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, addresses[path], content=text, inclusion=aside))
    links.addresses, links.files = addresses, files
    config.nav = navigation.written_out(config.nav or [], addresses)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Insert figures."""
    of = {to: path for path, to in links.addresses.items()}
    links.page, links.path = page, of.get(page.file.src_uri, "")
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # its only entry there is itself
    return figures.filled(with_player(markdown, page.url) if PAGE.is_file() else markdown, page.file.src_uri)


def with_player(markdown: str, url: str) -> str:
    """Embed the page with packetsim in a browser, and let commands that open it link to it."""
    at = f"{'../' * url.count('/')}{PAGE.name}"
    frame = f'<iframe src="{at}" title="packetsim in a browser" style="width: 100%; height: 60rem; border: 0"></iframe>'
    alone = f'<p><a href="{at}">Open it in a window of its own</a></p>'
    linked = PRESET.sub(rf'<a href="{at}#\1"><code>ncc play \1</code></a>', markdown)
    return linked.replace(EMBEDDED, f"{alone}\n\n{frame}")


def on_page_content(html: str, **_: object) -> str:
    """Exclude source code from the search index, so that searches find descriptions."""
    return html.replace(
        '<details class="mkdocstrings-source">', '<details class="mkdocstrings-source" data-search-exclude>'
    )
