"""A session of hiveacid on a fresh metastore and warehouse, and helpers to look at rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.spark import arrow_read, native_read
from hiveacid.statements.job import Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session
    from hiveacid.storage.plan.scan_plan import ScanPlan

_ATTEMPT = re.compile(r"((?:base|delta)_[^/]*/(?:bucket_\d+|\d+))_\d+")


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    """A session with its own metastore and warehouse, in which small tables are read as large ones
    are.
    """
    with _connected(spark, tmp_path) as session:
        yield session


@pytest.fixture(scope="module")
def lasting(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The same for all tests of a module that leave its tables as they are."""
    with _connected(spark, tmp_path_factory.mktemp("lasting")) as session:
        yield session


def _connected(spark: SparkSession, root: Path) -> Session:
    return hiveacid.connect(
        spark,
        f"sqlite:///{root}/metastore.db",
        warehouse=str(root / "wh"),
        settings={"hiveacid.reads.local_bytes": "0"},
    )


@pytest.fixture
def paris(spark: SparkSession) -> Iterator[None]:
    """A session in a zone whose clocks skip an hour each year."""
    old = spark.conf.get("spark.sql.session.timeZone")
    assert old is not None
    spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    yield
    spark.conf.set("spark.sql.session.timeZone", old)


@pytest.fixture
def rows(acid: Session) -> Callable[[str], list[tuple[Any, ...]]]:
    """The rows of a query, sorted by their text."""

    def run(sql: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in acid.sql(sql).collect()), key=str)

    return run


@pytest.fixture
def layout(tmp_path: Path) -> Callable[[str], list[str]]:
    """The files of a table, hidden ones included, relative to its directory; N is the attempt that
    the names have which tell tables apart.
    """

    def files(table: str) -> list[str]:
        root = tmp_path / "wh" / table
        found = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
        return [_ATTEMPT.sub(r"\1_N", name) for name in found]

    return files


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[ScanPlan]:
    """The plans that statements make, as they come."""
    made: list[ScanPlan] = []
    original = Reader.plan

    def plan(self: Reader, *arguments: Any, **names: Any) -> ScanPlan:
        made.append(original(self, *arguments, **names))
        return made[-1]

    monkeypatch.setattr(Reader, "plan", plan)
    return made


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways in which scans read."""
    taken: list[str] = []

    def spied(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def spy(*arguments: Any, **names: Any) -> Any:
            result = call(*arguments, **names)
            if result is not None:
                taken.append(name)
            return result

        return spy

    ways = (arrow_read, "in_workers"), (arrow_read, "in_driver"), (native_read, "rows")
    for module, name in ways:
        monkeypatch.setattr(module, name, spied(getattr(module, name), name))
    return taken
