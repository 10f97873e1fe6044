"""Configuration of all tests: a separate environment, fixtures, and a report of skipped tests."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from buckets import Bucket

DATA = Path(__file__).parents[1] / "probclass_core" / "demo" / "data"
TABLES = Path(__file__).parents[1] / "benchmarks" / "data"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

# The workers of pytest share the cores; threads of BLAS and OpenMP that wait would keep them busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Airflow reads these when it is first imported; the user's Airflow home must not be touched.
AIRFLOW_HOME = tempfile.TemporaryDirectory(prefix="probclass-airflow-", ignore_cleanup_errors=True)
os.environ["AIRFLOW_HOME"] = AIRFLOW_HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["MPLBACKEND"] = "Agg"

# Deadlines fail by chance on a busy machine; CI takes the same examples every time.
hypothesis.settings.register_profile("probclass", deadline=None, max_examples=10, derandomize=IN_CI)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=200)
hypothesis.settings.load_profile("probclass")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of bundled tables; see examples.md next to it."""
    return DATA


@pytest.fixture(scope="session")
def iris(data: Path) -> pa.Table:
    """The UCI copy of Iris, which the textbook uses."""
    return pacsv.read_csv(data / "iris_uci.csv")


@pytest.fixture(scope="session")
def penguins(data: Path) -> pa.Table:
    """Mixed columns with missing values."""
    options = pacsv.ConvertOptions(strings_can_be_null=True)
    return pacsv.read_csv(data / "penguins.csv", convert_options=options)


@pytest.fixture(scope="session")
def titanic() -> pa.Table:
    """Passengers of the Titanic: numbers, categories, missing values; ``label`` is text."""
    return pq.read_table(TABLES / "titanic.parquet")


@pytest.fixture(scope="session")
def adult(data: Path) -> tuple[pa.Table, pa.Table]:
    """Training and test parts of Adult, with nulls."""
    return pq.read_table(data / "adult_train.parquet"), pq.read_table(data / "adult_test.parquet")


class Served:
    """Object store servers; each is started when a test first needs it."""

    def __init__(self, folder: pytest.TempPathFactory, running: ExitStack) -> None:
        self._folder = folder
        self._running = running
        self._ports: dict[str, int] = {}

    def endpoint(self, kind: str) -> str:
        """Return the URL of the server of a kind of object store."""
        from servers import SERVERS_BY_KIND

        if kind not in self._ports:
            server = SERVERS_BY_KIND[kind](self._folder.mktemp(kind))
            self._ports[kind] = self._running.enter_context(server)
        return f"http://127.0.0.1:{self._ports[kind]}"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Object store servers on localhost."""
    with ExitStack() as running:
        yield Served(tmp_path_factory, running)


@pytest.fixture
def bucket(request: pytest.FixtureRequest, served: Served) -> Bucket:
    """A new bucket: on S3, or on the object store that an indirect parameter names."""
    from buckets import KINDS

    kind = getattr(request, "param", "s3")
    new = KINDS[kind](f"lake-{uuid.uuid4().hex[:12]}", served.endpoint(kind))
    new.make()
    return new


class NoSilentSkips:
    """List tests that are skipped or expected to fail, and fail the run in CI if there are any."""

    def __init__(self) -> None:
        self.not_run: list[str] = []

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or hasattr(report, "wasxfail"):
            self.not_run.append(report.nodeid)

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.not_run.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect the tests that a worker of pytest-xdist did not run, when it ends."""
        reported = getattr(node, "workeroutput", {}).get("not_run", [])
        self.not_run += [nodeid for nodeid in reported if nodeid not in self.not_run]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["not_run"] = self.not_run
        if self.not_run and IN_CI:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.not_run:
            effect = "fails the run" if IN_CI else "would fail the run in CI"
            terminalreporter.section(f"skipped or expected to fail, which {effect}", red=True)
            for nodeid in self.not_run:
                terminalreporter.line(nodeid)


# Tests with these fixtures start what pip cannot install or what takes long to start.
FIXTURES_OF_SERVICES = {"served", "spark", "lineage_events"}


def pytest_itemcollected(item: pytest.Item) -> None:
    if FIXTURES_OF_SERVICES.intersection(getattr(item, "fixturenames", ())):
        item.add_marker("services")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NoSilentSkips(), "no-silent-skips")


def pytest_unconfigure() -> None:
    AIRFLOW_HOME.cleanup()
