"""Fixtures that all tests share: the engines, the data files, and an end to tests that hang."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from support.engines import ENGINES, Engine, load_engine

HANG_SECONDS = 1_200  # building the kernel for Windows takes more than 600 s where two cores are slow and busy
DATA = Path(os.environ.get("STACKMASK_DATA", Path(__file__).parents[2] / "shared" / "data"))

NO_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
# The tests try the same examples every time and everywhere; new ones are for the thorough profile.
settings.register_profile("stackmask", deadline=None, max_examples=50, suppress_health_check=NO_CHECKS, derandomize=True)
settings.register_profile("thorough", parent=settings.get_profile("stackmask"), max_examples=2000, derandomize=False)
# For scripts/mutants.py, which asks only whether a test fails.
settings.register_profile(
    "mutants", parent=settings.get_profile("stackmask"), phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
)
settings.load_profile(os.environ.get("STACKMASK_HYPOTHESIS", "stackmask"))
if settings().derandomize:
    # Hypothesis mixes in the constants of all modules that are loaded, and has no switch for it: a test by itself, or in one of several
    # processes, would try other examples than among all tests.
    providers.is_local_module_file = lambda path: False

# Tests run in as many processes as there are cores. torch has to know before it is imported, here and in the servers that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test loads anything from a hub, nor do the servers that tests start.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(params=ENGINES, scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; the kernel only where it is built."""
    return _load(request.param)


@pytest.fixture(scope="session")
def kernel() -> Engine:
    """The compiled kernel."""
    return _load("kernel")


@pytest.fixture(scope="session")
def reference() -> Engine:
    """The reference engine."""
    return _load("reference")


def _load(name: str) -> Engine:
    try:
        return load_engine(name)
    except ModuleNotFoundError as error:
        if error.name != "stackmask.pda._kernel" or os.environ.get("CI") == "true":
            raise
        pytest.skip("the compiled kernel stackmask.pda._kernel is not built")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the large data files: $STACKMASK_DATA, by default ../shared/data beside the checkout."""
    if not DATA.is_dir():
        missing = f"the data folder {DATA} is missing; STACKMASK_DATA names another"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return DATA


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """End the run with a traceback where one test takes minutes: a hang in native code heeds no signal."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


MOST_TRACED = 20
UNTRACED: pytest.StashKey[bool] = pytest.StashKey()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose the tests that coverage follows: of each function as many cases as MOST_TRACED, evenly spread, and none marked `untraced`.

    PERF: coverage makes tests of Python code 3 to 7 times slower, and of hundreds of cases most take the branches of the others.
    """
    counts = Counter(_function(item) for item in items)
    places: Counter[str] = Counter()
    for item in items:
        name = _function(item)
        place, count = places[name], counts[name]
        places[name] += 1
        is_picked = place * MOST_TRACED // count != (place - 1) * MOST_TRACED // count  # always, where there are no more
        item.stash[UNTRACED] = item.get_closest_marker("untraced") is not None or not is_picked


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a test untraced if it was chosen to be: pytest-cov's own marker stops one of the two tracers that a process of xdist has."""
    if not item.stash.get(UNTRACED, False):
        return (yield)
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(of_threads)
