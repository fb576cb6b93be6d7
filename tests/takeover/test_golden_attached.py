"""Every golden table, taken over with the lists that Hive had: Hive's rows, and they stay."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.compaction.world import MAJOR, World
from tests.golden.tables import as_hive_prints, differences, golden_answer, golden_meta
from tests.golden.test_read_arrow import WIDE_TIMESTAMPS
from tests.recorded import golden_names, golden_path
from tests.sampling import first_letter, sampled

import hiveacid
from hiveacid.compaction.worker import Outcome
from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import partition_name
from hiveacid.model.tables import HASHED_OTHERWISE, AcidMode
from hiveacid.table import AcidTable

KEPT = ("transactional", "transactional_properties", "bucketing_version")
NAMES = sampled(golden_names(), "statements", "storage", "layout", group=first_letter)
BOTH_DATABASES = ("h01_aborted", "h02_aborted_part", "k02_aborted_open", "k05_open_plus_sql")


def attach(world: World, name: str, path: Path, **lists: str) -> dict[str, Any]:
    """The table ``t`` over a copy of a golden table, declared as Hive had it."""
    meta = golden_meta(name)
    shutil.copytree(golden_path(name) / "data", path)
    declare(world, meta, path, **lists)
    return meta


def declare(world: World, meta: dict[str, Any], path: Path, **lists: str) -> None:
    columns = ", ".join(f"`{column}` {kind}" for column, kind in meta["columns"])
    keys = ", ".join(f"`{column}` {kind}" for column, kind in meta["partition_columns"])
    buckets = ", ".join(meta["bucket_columns"])
    format = {"Mapred": "parquet", "TextIn": "textfile"}.get(
        meta["input_format"].rpartition(".")[2][:6], "orc"
    )
    properties = {key: value for key, value in meta["parameters"].items() if key in KEPT}
    shown = ", ".join(f"'{key}'='{value}'" for key, value in (properties | lists).items())
    world.acid.sql(
        f"create table t ({columns})"
        + (f" partitioned by ({keys})" if keys else "")
        + (f" clustered by ({buckets}) into {meta['num_buckets']} buckets" if buckets else "")
        + f" stored as {format} location '{path}' tblproperties ({shown})"
    )


def lists_of(meta: dict[str, Any]) -> dict[str, str]:
    return {
        "hiveacid.valid_write_ids": meta["valid_write_id_list"],
        "hiveacid.valid_txns": meta["valid_txn_list"],
    }


def check(world: World, name: str, meta: dict[str, Any]) -> None:
    header, expected = golden_answer(name, nanoseconds=name not in WIDE_TIMESTAMPS)
    row_ids = header[0] == "writeid"
    table = hiveacid.read_arrow(world.acid.table("t"), row_ids=row_ids).read_all()
    got = as_hive_prints(table, meta, row_ids=row_ids) if len(table) else []
    assert list(differences(got, expected)) == []


def in_microseconds(rows: pa.Table) -> pa.Table:
    """Rows that can be written: without the last three digits of timestamps."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type for f in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))), safe=False)


def compact_and_clean(world: World) -> bool:
    """Everything that can be: all partitions, and what aborted transactions left. Whether all was
    compacted: a single delta is not, as in Hive.
    """
    store, table = world.client.metastore, world.acid.table("t").definition
    keys = [column.name for column in table.partition_columns]
    parts = [one.values for one in store.list_partitions(table.name)] if keys else [()]
    results = [world.compact(MAJOR, partition=partition_name(keys, one) or None) for one in parts]
    world.clock.advance_ms(48 * 3_600_000)
    world.clean()
    world.client.metastore.run_housekeeping(interval_s=0)
    world.clean()
    world.client.metastore.run_housekeeping(interval_s=0)
    return all(one.outcome is Outcome.COMPACTED for one in results)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(f"sqlite:///{tmp_path}/m.db", tmp_path / "wh")
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_attached_with_its_lists_has_hives_rows_for_good(
    world: World, tmp_path: Path, name: str
) -> None:
    meta = attach(world, name, tmp_path / "t", **lists_of(golden_meta(name)))
    check(world, name, meta)
    before = in_microseconds(hiveacid.read_arrow(world.acid.table("t")).read_all())
    all_compacted = compact_and_clean(world)
    check(world, name, meta)
    if all_compacted:
        assert world.client.metastore.show_txns() == ()
    if world.acid.table("t").definition.acid_mode is AcidMode.FULL and len(before):
        column = before.schema.names[0]
        write = hiveacid.write_arrow(world.acid.table("t"), before)
        assert write.write_id > max(0, int(meta["valid_write_id_list"].split(":")[1]))
        after = hiveacid.read_arrow(world.acid.table("t")).read_all()
        assert len(after) == 2 * len(before)
        gone = hiveacid.delete_arrow(world.acid.table("t"), f"`{column}` is not null")
        assert gone.rows == 2 * (len(before) - before.column(0).null_count)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_attached_without_lists_is_refused_or_right(
    world: World, tmp_path: Path, name: str
) -> None:
    try:
        meta = attach(world, name, tmp_path / "t")
    except InvalidInputError as error:
        assert "does not say which of its rows count" in str(error)
        assert any("accept_all_write_ids" in note for note in error.__notes__)
        assert world.acid.sql("show tables").rows == ()
        return
    check(world, name, meta)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_declared_comes_from_the_files(world: World, tmp_path: Path, name: str) -> None:
    meta = golden_meta(name)
    shutil.copytree(golden_path(name) / "data", tmp_path / "t")
    lists = ", ".join(f"'{key}'='{value}'" for key, value in lists_of(meta).items())
    try:
        world.acid.sql(f"create table t location '{tmp_path}/t' tblproperties ({lists})")
    except InvalidInputError as error:
        assert "column" in str(error) or "no transactional table" in str(error)
        return
    found = world.acid.table("t").definition
    kept = dict(map(tuple, meta["columns"]))
    assert {column.name: str(column.type) for column in found.columns}.items() <= kept.items()
    assert found.acid_mode.value == (
        "insert_only"
        if meta["parameters"].get("transactional_properties") == "insert_only"
        else "full"
    )


def found_after_a_compaction(
    world: World, table: AcidTable, key: str, sort: str = ""
) -> tuple[pa.Table, int]:
    """All rows, and how many of them are found by their keys, which is all that have one."""
    hiveacid.write_arrow(table, hiveacid.read_arrow(table).read_all().slice(0, 3))
    compact_and_clean(world)
    rows = hiveacid.read_arrow(table).read_all()
    counts = Counter(value for value in rows[key].to_pylist() if value is not None)
    assert len(counts) > 10
    for value, count in counts.items():
        text = f"{sort}{str(value)!r}" if sort or isinstance(value, str) else repr(value)
        assert len(hiveacid.read_arrow(table, filter=f"{key} = {text}").read_all()) == count, value
    return rows, sum(counts.values())


@pytest.mark.parametrize("kind", ["date", "int", "string"])
def test_rows_that_hive_3_put_in_other_buckets_are_found_after_a_compaction(
    world: World, tmp_path: Path, kind: str
) -> None:
    name = f"v3_13_bucket_{kind}"
    attach(world, name, tmp_path / "t", **lists_of(golden_meta(name)))
    table = world.acid.table("t")
    bucket = table.definition.bucket
    assert bucket is not None
    key = bucket.columns[0]
    rows, found = found_after_a_compaction(world, table, key, "date " if kind == "date" else "")
    gone = hiveacid.delete_arrow(table, rows.select([key]).filter(rows[key].is_valid()))
    assert gone.rows == found


@pytest.mark.parametrize(
    "name", ["a02_update_delete", "h01_aborted", "j01_add_columns", "k05_open_plus_sql"]
)
def test_what_was_written_before_the_table_was_attached_is_among_its_changes(
    world: World, tmp_path: Path, name: str
) -> None:
    attach(world, name, tmp_path / "t", **lists_of(golden_meta(name)))
    table = world.acid.table("t")
    names = list(table.columns)
    rows = Counter(map(repr, hiveacid.read_arrow(table).read_all().select(names).to_pylist()))
    for args in ({}, {"consumer": "c"}):
        changes = hiveacid.read_changes(table, since=0, **args).read_all()
        kinds = changes["_change_type"].to_pylist()
        found: Counter[str] = Counter()
        for kind, row in zip(kinds, changes.select(names).to_pylist(), strict=True):
            found[repr(row)] += 1 if kind == "insert" else -1
        assert +found == rows
        assert rows
    assert hiveacid.read_changes(table, consumer="c").read_all().num_rows == 0


@pytest.mark.parametrize("way", ["added", "repaired", "moved"])
def test_rows_that_hive_3_put_in_other_buckets_are_found_however_they_came(
    world: World, tmp_path: Path, way: str
) -> None:
    meta = golden_meta("v3_13_bucket_int")
    columns = ", ".join(f"`{column}` {kind}" for column, kind in meta["columns"])
    (key,) = meta["bucket_columns"]
    world.acid.sql(
        f"create table t ({columns}) partitioned by (p int) clustered by ({key})"
        f" into {meta['num_buckets']} buckets stored as orc tblproperties ('transactional'='true')"
    )
    for number in range(3):  # as many write ids as the files have
        world.acid.sql(f"insert into t partition (p=2) values (null, {number})")
    table = world.acid.table("t")
    place = Path(table.definition.location) / "p=1"
    if way == "moved":
        world.acid.sql("alter table t add partition (p=1)")
        place = tmp_path / "elsewhere"
    shutil.copytree(golden_path("v3_13_bucket_int") / "data", place)
    text = {
        "added": "alter table t add partition (p=1)",
        "repaired": "msck repair table t",
        "moved": f"alter table t partition (p=1) set location '{place}'",
    }
    world.acid.sql(text[way])
    found_after_a_compaction(world, table, key)


def test_files_of_hive_3_in_a_table_that_is_converted_are_noted(
    world: World, tmp_path: Path
) -> None:
    clustered = "clustered by (k) into 4 buckets stored as orc"
    world.acid.sql(f"create table t (k int, n int) {clustered}")
    data = golden_path("v3_13_bucket_int") / "data" / "delta_0000001_0000001_0000"
    shutil.copy(data / "bucket_00000", tmp_path / "wh" / "t" / "000000_0")
    world.acid.sql("alter table t set tblproperties ('transactional'='true')")
    assert HASHED_OTHERWISE in world.acid.table("t").definition.properties
    world.acid.sql(f"create table u (k int, n int) {clustered}")
    world.acid.sql("insert into u values (1, 1)")
    world.acid.sql("alter table u set tblproperties ('transactional'='true')")
    assert HASHED_OTHERWISE not in world.acid.table("u").definition.properties
