"""The schema: migrations add up, versions are checked, what is missing is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, inspect
from tests.metastores import table_rows
from tests.postgres import PostgresServer

from hiveacid.clock import SystemClock
from hiveacid.errors import MetastoreError, NotFoundError
from hiveacid.metastore.connect import MIGRATIONS, Opening, connect, schema_differences
from hiveacid.metastore.sql import schema

_OLDEST = Path(__file__).parents[2] / "data" / "metastore"


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes databases without tables, all of one kind; the answer is a URL."""
    if kind == "sqlite":
        numbers = count()
        return lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.empty


def _structure(engine: Engine) -> dict[str, Any]:
    inspector: Any = inspect(engine)
    return {
        table: (
            sorted(
                (one["name"], str(one["type"]), one["nullable"], str(one["default"]))
                for one in inspector.get_columns(table)
            ),
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(
                (one["name"], tuple(one["column_names"]), bool(one["unique"]))
                for one in inspector.get_indexes(table)
            ),
        )
        for table in inspector.get_table_names()
    }


def test_the_oldest_schema_with_all_migrations_is_the_declared_one(
    kind: str, new_database: Callable[[], str]
) -> None:
    url = new_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in (_OLDEST / f"schema-1-{kind}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        connection.exec_driver_sql('INSERT INTO "HIVEACID_VERSION" VALUES (1)')
    with connect(url, clock=SystemClock(), opening=Opening.UPGRADE) as upgraded:
        assert schema_differences(upgraded.database) == ()
        assert table_rows(upgraded, "HIVEACID_VERSION") == [
            {"SCHEMA_VERSION": schema.SCHEMA_VERSION}
        ]
    fresh = new_database()
    connect(fresh, clock=SystemClock()).close()
    declared = create_engine(fresh)
    try:
        assert _structure(engine) == _structure(declared)
    finally:
        engine.dispose()
        declared.dispose()


def test_an_older_schema_that_lacks_something_is_named_and_left_as_it_is(
    metastore_url: str,
) -> None:
    connect(metastore_url, clock=SystemClock()).close()
    older = schema.SCHEMA_VERSION - 1
    engine = create_engine(metastore_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f'UPDATE "HIVEACID_VERSION" SET "SCHEMA_VERSION" = {older}')
        connection.exec_driver_sql('ALTER TABLE "HIVEACID_FLOORS" DROP COLUMN "HF_FIRST"')
        connection.exec_driver_sql('DROP TABLE "HIVEACID_PARTITIONS_SINCE"')
    before = _structure(engine)
    with pytest.raises(MetastoreError, match=r"not all of it.* HIVEACID_FLOORS\.HF_FIRST is"):
        connect(metastore_url, clock=SystemClock(), opening=Opening.UPGRADE)
    assert _structure(engine) == before
    with engine.begin() as connection:
        found = connection.exec_driver_sql('SELECT "SCHEMA_VERSION" FROM "HIVEACID_VERSION"')
        assert found.scalar() == older
    engine.dispose()


def test_each_version_has_its_migration() -> None:
    assert [one.version for one in MIGRATIONS] == list(range(2, schema.SCHEMA_VERSION + 1))


@pytest.mark.parametrize("opening", [Opening.EXISTING, Opening.UPGRADE])
def test_looking_for_a_metastore_makes_none(
    new_database: Callable[[], str], opening: Opening
) -> None:
    with pytest.raises(NotFoundError, match="There is no metastore at"):
        connect(new_database(), clock=SystemClock(), opening=opening)


@pytest.mark.parametrize(
    ("version", "opening", "message"),
    [
        (schema.SCHEMA_VERSION + 1, Opening.CREATE, "newer than the version"),
        (schema.SCHEMA_VERSION + 1, Opening.UPGRADE, "newer than the version"),
        (schema.SCHEMA_VERSION - 1, Opening.CREATE, "older than the version"),
    ],
)
def test_a_schema_of_another_version_is_refused(
    metastore_url: str, version: int, opening: Opening, message: str
) -> None:
    connect(metastore_url, clock=SystemClock()).close()
    engine = create_engine(metastore_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f'UPDATE "HIVEACID_VERSION" SET "SCHEMA_VERSION" = {version}')
    engine.dispose()
    with pytest.raises(MetastoreError, match=message):
        connect(metastore_url, clock=SystemClock(), opening=opening)


def test_what_is_missing_is_named(metastore_url: str) -> None:
    with connect(metastore_url, clock=SystemClock()) as metastore:
        with metastore.database.write() as unit:
            unit.channel.send('DROP INDEX "HIVEACID_TXNS_STARTED"')
            unit.channel.send('DROP TABLE "REPL_TXN_MAP"')
        found = schema_differences(metastore.database)
    assert found[0] == "table REPL_TXN_MAP is missing"
    assert found[-1] == "index HIVEACID_TXNS_STARTED is missing"


def test_the_transaction_tables_are_hives(project: Path, postgres: PostgresServer) -> None:
    """Names and types of columns as Hive 4.1 has them on PostgreSQL."""
    facts = project / "docs" / "facts" / "observed" / "postgres-4.1-columns.tsv"
    hive: dict[str, set[tuple[str, str]]] = {}
    for line in facts.read_text().splitlines()[1:]:
        fields = line.split("\t")
        if len(fields) == 7:
            hive.setdefault(fields[0], set()).add(
                (fields[2], fields[3].replace("bpchar", "varchar"))
            )
    engine = create_engine(postgres.metastore())
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT table_name, column_name, udt_name FROM information_schema.columns "
            "WHERE table_schema = 'public'"
        ).all()
    engine.dispose()
    ours: dict[str, set[tuple[str, str]]] = {}
    for table, column, kind in rows:
        ours.setdefault(table, set()).add((column, kind))
    different = {
        table: columns ^ hive.get(table, set())
        for table, columns in ours.items()
        if not table.startswith("HIVEACID_") and columns != hive.get(table)
    }
    assert different == {}
