# SPDX-License-Identifier: BSD-3-Clause
"""Settings of every test: hypothesis counts examples, never seconds, because CI is slow at random."""

import logging.config
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from ncc.core.extras import MissingExtraError
from tests.support import attacks, parallel, temporary
from tests.support.extras import lacking, skip
from tests.support.linux import mark_needs, unfit

pytest_plugins = ["tests.support.ray"]

settings.register_profile(
    "ncc", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ncc")

if "PYTEST_XDIST_WORKER" not in os.environ:  # which has it from the process that starts it
    temporary.stay_in(Path(__file__).parents[1] / "build" / f"tmp-{os.getuid()}")

# They change how wide and how coloured tables are.
for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Hypothesis draws constants of all modules of ours that are imported, and so other examples after other tests.
providers._get_local_constants = Constants

# Processes share the cores, and networks here are small: more threads are slower. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs the tests in the background has SIGINT ignored, and every process started here would inherit that:
# then Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _handlers_stay_open() -> Generator[None]:
    """Keep Hydra, which sets up logging anew in each main, from closing handlers of others.

    The one of absl, which comes with TensorBoard, would close pytest's own stream with itself.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(logging.config, "_clearExistingHandlers", lambda: None)
        yield


ASKED_FOR = ("timing", "experiments")
"""Markers of tests that run only where `-m` names them."""


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder of a short training that was judged on two datapaths, and its output. Tests do not change its files."""
    pytest.importorskip("torch", reason="training needs the torch extra")
    from tests.mains.commands import SYNC, TINY, ncc

    cwd = tmp_path_factory.mktemp("trained")
    done = ncc("train", *TINY, *SYNC, "out=run", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd / "run", done.stdout


@pytest.fixture(scope="session")
def trained(training: tuple[Path, str]) -> Path:
    """Folder of that training."""
    return training[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark what needs clang, leave out what runs only where it is asked for, and order the rest, after all plugins."""
    left_out = [marker for marker in ASKED_FOR if marker not in config.option.markexpr]
    asked: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        mark_needs(item)
        attacks.note(item)
        (others if any(map(item.get_closest_marker, left_out)) else asked).append(item)
    items[:] = asked
    if others:
        config.hook.pytest_deselected(items=others)
    yield
    items.sort(key=lambda item: parallel.place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of processes for ``-n auto``."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", parallel.workers()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return what hands out files to those processes."""
    return parallel.scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports what an absent extra brings."""
    report = yield
    if report.failed:
        skip(report, lacking(str(report.longrepr)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of attacks where they were asked for."""
    if config.option.markexpr == attacks.MARKER:
        terminalreporter.section("attacks on the agent of a host")
        for line in attacks.table(terminalreporter.stats):
            terminalreporter.line(line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of the kernel's timing on a machine that is too busy for it."""
    if item.get_closest_marker("timing") and (reason := unfit()):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that asks for an absent extra."""
    report = yield
    if report.failed and call.excinfo and call.excinfo.errisinstance((ModuleNotFoundError, MissingExtraError)):
        skip(report, lacking(str(call.excinfo.value)))
    return report
