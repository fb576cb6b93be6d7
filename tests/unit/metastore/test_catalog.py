from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.metastores import table_rows

from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.metastore.sql import engine
from hiveacid.model.tables import (
    BucketSpec,
    Column,
    Database,
    FileFormat,
    Partition,
    SortColumn,
    Table,
    TableKind,
    TableName,
)
from hiveacid.model.transactions import LockComponent, LockType, OperationType
from hiveacid.model.types import parse_type

NAME = TableName("sales", "orders")
TABLE = Table(
    name=NAME,
    columns=(
        Column("id", parse_type("bigint"), "the key"),
        Column("tags", parse_type("array<struct<a:int,b:map<string,decimal(10,2)>>>")),
    ),
    location="/w/sales.db/orders",
    partition_columns=(Column("day", parse_type("date")), Column("kind", parse_type("string"))),
    bucket=BucketSpec(("id",), 4, 2),
    sort_columns=(SortColumn("id"), SortColumn("tags", is_descending=True)),
    properties={"transactional": "true", "bucketing_version": "2", "note": "x" * 5000},
    comment="what was ordered",
    owner="ann",
    created_at_ms=1_600_000_000_000,
)


@pytest.fixture
def catalog(metastore: SqlMetastore) -> SqlMetastore:
    metastore.create_database(Database("Sales", "/w/sales.db", "all of it", {"a": "1"}))
    metastore.create_table(TABLE)
    return metastore


def test_databases_come_back_as_they_were_created(catalog: SqlMetastore) -> None:
    assert catalog.list_databases() == ("sales",)
    assert catalog.get_database("SALES") == Database(
        "sales", "/w/sales.db", "all of it", {"a": "1"}
    )
    catalog.alter_database("sales", lambda _: Database("sales", "/w/other", None, {"b": "2"}))
    assert catalog.get_database("sales") == Database("sales", "/w/other", None, {"b": "2"})


def test_creating_twice_fails_unless_asked_for(catalog: SqlMetastore) -> None:
    with pytest.raises(AlreadyExistsError):
        catalog.create_database(Database("sales", "/x"))
    assert not catalog.create_database(Database("sales", "/x"), if_not_exists=True)
    with pytest.raises(AlreadyExistsError):
        catalog.create_table(TABLE)
    assert not catalog.create_table(TABLE, if_not_exists=True)


def test_a_database_with_tables_is_dropped_only_with_cascade(catalog: SqlMetastore) -> None:
    with pytest.raises(InvalidInputError, match="not empty"):
        catalog.drop_database("sales")
    catalog.drop_database("sales", cascade=True)
    assert catalog.list_databases() == ()
    assert table_rows(catalog, "TBLS") == []
    with pytest.raises(NotFoundError):
        catalog.drop_database("sales")


def test_tables_come_back_as_they_were_created(catalog: SqlMetastore) -> None:
    assert catalog.get_table(NAME) == TABLE
    assert catalog.list_tables("sales") == ("orders",)


@pytest.mark.parametrize("kind", [FileFormat.PARQUET, FileFormat.TEXT])
def test_plain_tables_keep_their_format(catalog: SqlMetastore, kind: FileFormat) -> None:
    plain = Table(TableName("sales", "p"), (Column("a", parse_type("int")),), "/w/p", format=kind)
    catalog.create_table(plain)
    assert replace(catalog.get_table(plain.name), created_at_ms=0) == plain


def test_views_keep_their_text(catalog: SqlMetastore) -> None:
    view = Table(
        TableName("sales", "v"),
        (Column("a", parse_type("int")),),
        "",
        kind=TableKind.VIEW,
        view_text="select 1",
    )
    catalog.create_table(view)
    assert replace(catalog.get_table(view.name), created_at_ms=0) == view


def test_unknown_tables_and_databases_carry_hives_codes(catalog: SqlMetastore) -> None:
    with pytest.raises(NotFoundError, match=r"\[Error 10001\]: Table not found sales.nosuch"):
        catalog.get_table(TableName("sales", "nosuch"))
    with pytest.raises(NotFoundError, match="10072"):
        catalog.list_tables("nosuch")
    with pytest.raises(NotFoundError):
        catalog.create_table(replace(TABLE, name=TableName("nosuch", "t")))


def test_altering_replaces_the_definition(catalog: SqlMetastore) -> None:
    changed = replace(
        TABLE,
        columns=(*TABLE.columns, Column("more", parse_type("string"))),
        bucket=BucketSpec(("id",), 8),
        sort_columns=(),
        properties={"transactional": "true", "bucketing_version": "2"},
        comment=None,
        location="/elsewhere/orders",
    )
    catalog.add_partitions(NAME, [Partition(("2024-01-01", "a"), "/w/sales.db/orders/x")])
    assert catalog.alter_table(NAME, lambda _: changed) == changed
    assert catalog.get_table(NAME) == changed
    assert [one.location for one in catalog.list_partitions(NAME)] == ["/w/sales.db/orders/x"]


@pytest.mark.slow
def test_what_two_change_at_once_is_both_there(catalog: SqlMetastore) -> None:
    def add(key: str) -> None:
        catalog.alter_table(NAME, lambda now: replace(now, properties={**now.properties, key: ""}))

    keys = [f"key{number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, keys))
    assert set(catalog.get_table(NAME).properties) >= set(keys)


def test_a_change_that_fails_leaves_all_as_it_was(catalog: SqlMetastore) -> None:
    def refuse(_: object) -> Any:
        raise InvalidInputError("no")

    for alter in (
        lambda: catalog.alter_table(NAME, refuse),
        lambda: catalog.alter_partition(NAME, ("d", "a"), refuse),
    ):
        catalog.add_partitions(NAME, [Partition(("d", "a"), "/l/1")])
        with pytest.raises(InvalidInputError):
            alter()
    assert catalog.get_table(NAME) == TABLE
    assert catalog.list_partitions(NAME) == (Partition(("d", "a"), "/l/1"),)


def test_a_table_made_anew_under_a_name_is_another(catalog: SqlMetastore) -> None:
    first = catalog.get_table(NAME)
    assert catalog.alter_table(NAME, lambda now: replace(now, comment="c")).id == first.id
    catalog.drop_table(NAME)
    catalog.create_table(TABLE)
    assert catalog.get_table(NAME).id != first.id


def test_renaming_carries_partitions_write_ids_and_locks_along(catalog: SqlMetastore) -> None:
    catalog.add_partitions(NAME, [Partition(("2024-01-01", "a"), TABLE.location + "/x")])
    (txn,) = catalog.open_txns(1, user="u", host="h")
    assert catalog.allocate_write_ids([txn], NAME) == {txn: 1}
    lock = LockComponent(LockType.SHARED_WRITE, "sales", "orders", operation=OperationType.INSERT)
    catalog.lock([lock], txn=txn, user="u", host="h")
    new = TableName("sales", "bought")
    catalog.alter_table(NAME, lambda now: replace(now, name=new, location="/w/sales.db/bought"))
    assert catalog.list_tables("sales") == ("bought",)
    assert catalog.get_table(new).location == "/w/sales.db/bought"
    assert catalog.list_partitions(new)[0].location == "/w/sales.db/bought/x"
    assert catalog.allocate_write_ids([txn], new) == {txn: 1}
    assert [one.table for one in catalog.show_locks()] == ["bought"]
    catalog.create_table(TABLE)
    with pytest.raises(AlreadyExistsError):
        catalog.alter_table(NAME, lambda now: replace(now, name=new))


def test_a_table_created_again_starts_at_write_id_one(catalog: SqlMetastore) -> None:
    (txn,) = catalog.open_txns(1, user="u", host="h")
    catalog.allocate_write_ids([txn], NAME)
    catalog.commit_txn(txn)
    catalog.drop_table(NAME)
    with pytest.raises(NotFoundError):
        catalog.drop_table(NAME)
    for table in ("SDS", "CDS", "SERDES", "COLUMNS_V2", "TABLE_PARAMS", "TXN_TO_WRITE_ID"):
        assert table_rows(catalog, table) == []
    catalog.create_table(TABLE)
    assert catalog.valid_write_ids([NAME])[0].hwm == 0


def test_partitions_are_added_once_and_listed_by_name(catalog: SqlMetastore) -> None:
    first = Partition(("2024-01-02", "a/b=c"), "/l/1", {"n": "1"})
    default = Partition(("2024-01-01", None), "/l/2")
    assert catalog.add_partitions(NAME, [first, default, first]) == (first, default)
    assert catalog.add_partitions(NAME, [replace(first, location="/other")]) == ()
    assert catalog.list_partitions(NAME) == (default, first)
    kept = replace(first, values=("2024-01-03", "c"), properties={"n": "1", "numRows": "0"})
    catalog.add_partitions(NAME, [kept])
    assert catalog.list_partitions(NAME)[2] == replace(kept, properties={"n": "1"})
    assert catalog.list_partitions(NAME, statistics=True)[2] == kept
    catalog.drop_partitions(NAME, [kept.values])
    assert catalog.get_partition(NAME, first.values) == first
    names = sorted(row["PART_NAME"] for row in table_rows(catalog, "PARTITIONS"))
    assert names == [
        "day=2024-01-01/kind=__HIVE_DEFAULT_PARTITION__",
        "day=2024-01-02/kind=a%2Fb%3Dc",
    ]


def test_partitions_are_altered_and_dropped(catalog: SqlMetastore) -> None:
    one, two = Partition(("d", "a"), "/l/1"), Partition(("d", "b"), "/l/2")
    catalog.add_partitions(NAME, [one, two])
    changed = Partition(("d", "a"), "/l/3", {"x": "y"})
    catalog.alter_partition(NAME, one.values, lambda _: changed)
    assert catalog.list_partitions(NAME) == (changed, two)
    assert catalog.drop_partitions(NAME, [("d", "b"), ("d", "none")]) == (two,)
    assert catalog.list_partitions(NAME) == (changed,)
    with pytest.raises(NotFoundError, match=r"10006.*Partition not found \{day=d, kind=b\}"):
        catalog.get_partition(NAME, ("d", "b"))


def test_a_partition_needs_a_value_for_each_column(catalog: SqlMetastore) -> None:
    with pytest.raises(InvalidInputError, match="2 partition columns, 1 values"):
        catalog.add_partitions(NAME, [Partition(("d",), "/l")])


def test_what_drops_a_table_is_compiled_once(
    metastore: SqlMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve tables keep records of transactions by name: each statement would be compiled anew."""
    compiled: list[str] = []
    original = engine._Compiled.of

    def of(statement: Any, dialect: Any) -> Any:
        compiled.append(str(statement))
        return original(statement, dialect)

    monkeypatch.setattr(engine._Compiled, "of", of)
    metastore.create_database(Database("sales", "/w/sales.db"))
    for _ in range(2):
        compiled.clear()
        metastore.create_table(TABLE)
        metastore.drop_table(NAME)
    assert len(compiled) <= 12, "\n".join(compiled)
