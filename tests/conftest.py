"""What tests get: UTC before any JVM starts, one small Spark session for those that ask.

Markers say what a test needs, and from them follows where it runs (CONTRIBUTING.md): ``spark``,
``postgres`` and ``s3`` are set here by the fixtures that a test asks for; the others stand at the
tests (pyproject.toml says what each means).
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from tests.connect import OVER_CONNECT, connect_session
from tests.postgres import PostgresServer, postgres_server
from tests.s3 import S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.hdfs import Hdfs

os.environ["TZ"] = "UTC"
time.tzset()
# Nothing that is imported or collected goes before the tests begin.
gc.disable()
# A shell ignores Ctrl-C for what it starts in the background; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# For every JVM that a test starts: as in Makefile, which says why.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:MetaspaceSize=256m"
    " -XX:+UseSerialGC -Xmn400m -Xlog:cds=off -Xlog:cds+dynamic=off"
    f' -XX:SharedArchiveFile="{sys.prefix}/spark.jsa"',
)
SERVERS = {"spark", "postgres", "s3"}
FIRST = ("spark", "java")
PROJECT = Path(__file__).parents[1]
# Few examples, the same in each run, however loaded the machine is; many that are looked for anew,
# and kept where one fails: --hypothesis-profile search.
_ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
hypothesis.register_profile("same", max_examples=30, derandomize=True, database=None, **_ANY_SPEED)
hypothesis.register_profile("search", max_examples=300, **_ANY_SPEED)
hypothesis.load_profile("same")
# Python workers begin with ``tests.worker_daemon``, those of a Connect server too, and all that is
# started with what is in ``tests/processes``. None of them compiles the package for itself.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (f"{PROJECT}/tests/processes", str(PROJECT), os.environ.get("PYTHONPATH")))
)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# With which Spark's JVM looks for data sources in Python, where no environment is activated.
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def pytest_collection_finish() -> None:
    """What is there by now stays: nobody looks through it again for what nobody holds."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--changed``: for ``.ci/run``."""
    parser.addoption(
        "--changed",
        metavar="NAMES",
        help="of the long tests only those that cover one of these rooms of the package (all: any),"
        " or stand in one of these files; commas between",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the servers they ask for, and put those that ask for Spark first: two processes
    get a half each at the beginning, and only one of them has to start a JVM. Those with a JVM of
    their own come next, so that none of them, which are long, ends last and alone.
    """
    for item in items:
        for server in SERVERS & _asked_for(item):
            item.add_marker(server)
        if OVER_CONNECT and item.get_closest_marker("jvm"):
            item.add_marker(pytest.mark.skip(reason="looks into the JVM, which Connect hides"))
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in FIRST])
    changed = config.getoption("--changed")
    if changed is not None:
        names = set(changed.split(","))
        rest = [item for item in items if not _is_covered(item, names)]
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if _is_covered(item, names)]


def _asked_for(item: pytest.Item) -> set[str]:
    """Names of fixtures; a parameter ``postgres`` asks for one by its value."""
    call = getattr(item, "callspec", None)
    values = [value for value in call.params.values() if isinstance(value, str)] if call else []
    return {*getattr(item, "fixturenames", ()), *values}


def _is_covered(item: pytest.Item, changed: set[str]) -> bool:
    rooms = [set(marker.args) for marker in item.iter_markers("long")]
    if not all(rooms):
        return False  # that of no room is of `make test-all`
    if not rooms or "all" in changed or not changed.isdisjoint(set().union(*rooms)):
        return True
    return str(item.path.relative_to(PROJECT)) in changed


@pytest.fixture(scope="session", autouse=True)
def no_embedded_compactor() -> Iterator[None]:
    """Tests look at directories: only those that say ``embedded`` have them compacted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hiveacid.compacting.embeds_by_default", lambda _: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each test with a metastore makes its own: a copy of one that is empty; and nothing waits for
    the disk, which no test takes away.
    """
    from hiveacid.clock import SystemClock
    from hiveacid.metastore import connect
    from hiveacid.metastore.sql import sqlite

    directory = tmp_path_factory.mktemp("metastore")
    connect.connect(f"sqlite:///{directory}/empty.db", clock=SystemClock()).close()
    numbers = count()
    original_init, original_prepare = sqlite.SqliteDialect.__init__, connect.prepare

    @wraps(original_init)
    def without_waiting(self: Any, path: str, **options: Any) -> None:
        original_init(self, path, **{**options, "durable": False})

    def prepare(database: Any, opening: connect.Opening) -> None:
        dialect = database.dialect
        is_file = database.url.startswith("sqlite:///")  # a simulation's says something else
        if is_file and isinstance(dialect, sqlite.SqliteDialect) and dialect.is_new():
            copy = directory / f"{os.getpid()}-{next(numbers)}.db"
            shutil.copyfile(directory / "empty.db", copy)
            with suppress(OSError):  # another thread was first, or nobody may write there
                os.link(copy, database.url.removeprefix("sqlite:///"))
            copy.unlink()
        original_prepare(database, opening)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite.SqliteDialect, "__init__", without_waiting)
        patch.setattr(connect, "prepare", prepare)
        yield


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Facts, golden tables and SQL cases beside the checkout; skips where they are not there."""
    path = PROJECT.parent / "shared"
    if not path.is_dir():
        pytest.skip("../shared is not here")
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One server that speaks S3 for all tests."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """One HDFS for all tests; skips where there is no Maven to fetch it."""
    from tests.hdfs import hdfs_server
    from tests.interop.hive_tool import HiveIsMissingError

    try:
        with hdfs_server() as address:
            yield address
    except HiveIsMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.long("metastore", "txn"))]
)
def metastore_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a metastore of its own; on PostgreSQL where the code that speaks to it changed
    (the vectors and ``make sim`` use it in every run).
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.metastore()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests: two cores, UTC, small shuffles, no web page, 2 GB; over Spark
    Connect, with a server of its own, where the environment says so.
    """
    from hiveacid.spark.workers import local_session

    scratch = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        # nobody looks at the plans of the past, which are most of what lives in the JVM
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.python.daemon.module": "tests.worker_daemon",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }
    if OVER_CONNECT:
        session = connect_session("local[2]", conf=conf)
    else:
        session = local_session("hiveacid tests", conf={"spark.master": "local[2]", **conf})
    yield session
    session.stop()
