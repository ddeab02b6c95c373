# SPDX-License-Identifier: BSD-3-Clause
"""``python -m tests.notebooks.execute <in> <out>``: a notebook run from top to bottom by this interpreter's kernel.

In a process of its own, for a client of a kernel leaves sockets and threads open. Whoever starts it says by JUPYTER_*
and IPYTHONDIR where Jupyter may write.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def main(source: Path, target: Path) -> int:
    """Run `source` in its folder and write what came of it to `target`; 1 if a cell failed."""
    notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(source.parent)}}
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=None, startup_timeout=600, iopub_timeout=600, resources=where
    )  # a machine may be busy
    try:
        client.execute()
    except CellExecutionError as error:
        sys.stderr.write(f"{error.ename}: {error.evalue}\n{error.traceback}\n")
        return 1
    finally:
        nbformat.write(notebook, target)  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="python -m tests.notebooks.execute", description="run a notebook")
    asked.add_argument("source", type=Path, help="the notebook")
    asked.add_argument("target", type=Path, help="where it goes with what came of it")
    arguments = asked.parse_args()
    raise SystemExit(main(arguments.source, arguments.target))
