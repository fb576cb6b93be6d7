"""Statistics: kept by DML, taken by ANALYZE; count(*) is answered from them when they are exact."""

from __future__ import annotations

import contextlib
import io
import threading
from dataclasses import replace

import pytest

import hiveacid
from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.tails import tail_of
from hiveacid.storage.plan import scan_plan

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

ACID = "stored as orc tblproperties ('transactional'='true')"
BASIC = '{"BASIC_STATS":"true"}'


@pytest.fixture
def known(acid):
    """The statistics of a table by their keys."""

    def read(table="t"):
        found = acid.table(table).definition.properties
        keys = ("COLUMN_STATS_ACCURATE", "numFiles", "numRows")
        return tuple(found.get(key) for key in keys)

    return read


@pytest.fixture
def counted(acid):
    """The answer to count(*), and whether it came without reading the table."""

    def ask(session=None, text="select count(*) from t"):
        frame = (session or acid).sql(text)
        plan = io.StringIO()
        with contextlib.redirect_stdout(plan):
            frame.explain(extended=True)
        return frame.collect()[0][0], "SubqueryAlias one" in plan.getvalue()

    return ask


def test_dml_keeps_the_row_count_as_hive_does(acid, known, counted):
    acid.sql(f"create table t (id int, v string) {ACID}")
    accurate = '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true","v":"true"}}'
    assert known() == (accurate, "0", "0")
    assert counted() == (0, True)
    steps = {
        "insert into t values (1,'a'),(2,'b'),(3,'c')": ("1", "3"),
        "update t set v = 'q' where id = 1": ("3", "3"),
        "update t set v = 'q' where id = 77": ("3", "3"),
        "delete from t where id > 1": ("4", "1"),
        "merge into t using (select 1 id union all select 9) s on t.id = s.id when matched then"
        " delete when not matched then insert values (s.id, 'n')": ("6", "1"),
        "insert overwrite table t values (5,'e'),(6,'f')": ("1", "2"),
        "insert overwrite table t select * from t where false": ("0", "0"),
        "insert into t select 1, 'x'": ("1", "1"),
        "truncate table t": ("0", "0"),
    }
    for text, (files, rows) in steps.items():
        acid.sql(text)
        assert known() == (BASIC, files, rows), text
        assert counted() == (int(rows), True), text
    assert counted(text="select count(1) as n from default.t x")[1]
    assert not counted(text="select count(*) from t where id = 1")[1]
    acid.sql("set hive.compute.query.using.stats=false")
    assert counted() == (0, False)


def test_a_statement_that_fails_and_an_aborted_one_leave_the_statistics(acid, known):
    acid.sql(f"create table t (id int not null) {ACID}")
    acid.sql("insert into t values (1)")
    before = known()
    with pytest.raises(hiveacid.AcidError):
        acid.sql("insert into t select cast(null as int)")
    assert known() == before == (BASIC, "1", "1")


def test_partitions_have_their_own_counts(acid, known, counted):
    acid.sql(f"create table t (id int) partitioned by (p int, q string) {ACID}")
    assert counted() == (0, True)
    acid.sql("insert into t values (1,1,'a'),(2,1,'a'),(3,2,null)")
    assert known() == (None, None, None)
    assert counted() == (3, True)
    acid.sql("delete from t where id = 2")
    acid.sql("insert overwrite table t partition (p=2, q) select 7, 'b' union all select 8, 'b'")
    assert counted() == (4, True)
    acid.sql("insert into t partition (p=5, q='z') select 1 where false")
    acid.sql("alter table t add partition (p=9, q='n')")
    acid.sql("truncate table t partition (p=2, q='b')")
    assert counted() == (2, True)
    acid.sql("alter table t partition (p=1, q='a') rename to partition (p=4, q='c')")
    assert counted()[0] == 2
    acid.sql("alter table t drop partition (p=2)")
    assert counted()[0] == 1
    acid.sql("truncate table t")
    assert counted() == (0, True)


def test_count_is_that_of_the_snapshot_whoever_commits_between(acid, spark, counted, tmp_path):
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1),(2)")
    with hiveacid.connect(
        spark, f"sqlite:///{tmp_path}/metastore.db", warehouse=str(tmp_path / "wh")
    ) as other:
        table = acid.table("t").definition
        metastore = acid.client.metastore
        with acid.client.transactions.begin(read_only=True) as mine:
            seen = mine.valid_write_ids(table)
            assert metastore.row_count(table.name, seen) == 2
            other.sql("insert into t values (3)")
            assert metastore.row_count(table.name, seen) is None
        assert counted() == (3, True)
        with acid.client.transactions.begin() as slow:  # takes a lower id, commits later
            first = slow.write_id(table.name)
            other.sql("delete from t where id = 1")
            with acid.client.transactions.begin(read_only=True) as between:
                seen = between.valid_write_ids(table)
                assert metastore.row_count(table.name, seen) == 2
                slow.record_write(table, [None], hiveacid_insert())
                slow.commit()
                assert metastore.row_count(table.name, seen) is None
        assert first == 3
        assert counted() == (2, False)  # what wrote it said nothing of its rows
        acid.sql("analyze table t compute statistics")
        assert counted() == (2, True)


def hiveacid_insert():
    from hiveacid.model.transactions import OperationType

    return OperationType.INSERT


@pytest.mark.long("spark", "statements", "storage")
def test_analyze_stores_what_hive_stores(acid, known, rows, tmp_path):
    acid.sql(
        "create table t (i int, s varchar(5), d decimal(10,2), f double, b boolean, dt date,"
        f" ts timestamp, bi binary, a array<int>) partitioned by (p string) {ACID}"
    )
    acid.sql(
        "insert into t select 2, 'abc', 2.50, 1.5, true, date'1970-01-03',"
        " timestamp'1970-01-01 00:00:10', cast('xy' as binary), array(1), 'x'"
        " union all select null, null, null, null, null, null, null, null, null, 'x'"
        " union all select 9, 'z', -1, 2, false, date'1970-01-01', null, null, null, null"
    )
    acid.sql("analyze table t compute statistics for columns")
    catalog, name = acid.client.metastore, acid.table("t").name

    def of(column, partition=("x",)):
        found = catalog.column_statistics(name, column, partition=partition)
        return None if found is None else (found.nulls, found.distinct)

    assert of("i") == of("s") == of("d") == of("dt") == (1, 1)
    assert of("bi") == of("b") == (1, None)
    assert of("a") is None
    assert of("i", (None,)) == (0, 1)
    one = catalog.column_statistics(name, "d", partition=("x",))
    assert (one.decimal_low, one.decimal_high) == ("2.5", "2.5")
    assert catalog.column_statistics(name, "dt", partition=("x",)).long_low == 2
    assert catalog.column_statistics(name, "ts", partition=("x",)).long_high == 10
    assert catalog.column_statistics(name, "s", partition=("x",)).average_length == 1.5
    shown = {c: dict(rows(f"describe formatted t partition (p='x') {c}")) for c in ("dt", "ts")}
    assert (shown["dt"]["min"], shown["ts"]["max"]) == ("1970-01-03", "1970-01-01 00:00:10")
    assert rows("select count(*) from t") == [(3,)]
    with pytest.raises(InvalidInputError):
        acid.sql("analyze table t compute statistics for columns nosuch")
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("insert into plain values (1),(2)")
    acid.sql("analyze table plain compute statistics for columns id")
    accurate = '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}'
    assert known("plain") == (accurate, "1", "2")
    acid.sql("alter table plain set tblproperties ('transactional'='true')")
    assert known("plain")[0] is None


def test_the_rows_of_a_table_of_an_unknown_kind_are_not_counted(acid, rows):
    acid.sql("create table odd (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into odd values (1), (2)")
    assert rows("select count(*) from odd") == [(2,)]
    acid.client.metastore.alter_table(
        acid.table_name("odd"),
        lambda t: replace(t, properties={**t.properties, "transactional_properties": "odd"}),
    )
    with pytest.raises(InvalidInputError, match="unknown value odd"):
        acid.sql("select count(*) from odd").collect()


@pytest.fixture
def days(acid, rows):
    acid.sql(f"create table d (id int, v int) partitioned by (p string) {ACID}")
    acid.sql(
        "insert into d select cast(id as int), 1, concat('d', id div 10) from range(0, 40, 1, 1)"
    )
    return acid.table("d")


def test_the_greatest_partition_with_rows_is_told_by_what_lies_in_it(days, acid, counted, plans):
    assert counted(text="select max(p) from d") == ("d3", True)
    assert len(plans[0].parts) == 1  # the others are not listed
    assert counted(text="select min(p) m from d") == ("d0", True)
    acid.sql("delete from d where id = 39")
    assert counted(text="select max(p) from d") == ("d3", True)
    acid.sql("delete from d where p = 'd3' and id <= 35")
    assert counted(text="select max(p) from d") == ("d3", True)  # ten rows, seven deletes
    acid.sql("delete from d where p = 'd3'")
    assert counted(text="select max(p) from d") == ("d2", False)
    acid.sql("alter table d drop partition (p = 'd3')")
    assert counted(text="select max(p) from d") == ("d2", True)
    acid.sql("alter table d add partition (p = 'd7')")
    acid.sql("insert into d values (77, 1, null)")  # a text there: __HIVE_DEFAULT_PARTITION__
    assert counted(text="select max(p) from d") == ("d2", True)
    assert counted(text="select min(p) from d") == ("__HIVE_DEFAULT_PARTITION__", True)
    assert counted(text="select count(p) from d") == (31, True)
    acid.sql("truncate table d")
    assert counted(text="select max(p) from d") == (None, True)


def test_tails_that_are_far_away_are_read_together(days, acid, monkeypatch):
    readers = set()

    def tail(*place):
        readers.add(threading.current_thread())
        return tail_of(*place)

    monkeypatch.setattr(scan_plan, "tail_of", tail)
    assert acid.sql("select max(id) from d").collect() == [(39,)]
    assert readers == {threading.main_thread()}
    monkeypatch.setattr(FileSystem, "requests_at_once", 4)
    assert acid.sql("select max(id) from d").collect() == [(39,)]
    assert len(readers) > 1


def test_the_first_file_with_rows_tells_that_there_are_some(days, acid, monkeypatch):
    for number in range(3):
        acid.sql(f"insert into d values ({number}, 1, 'd3')")
    tails = []

    def tail(*place):
        tails.append(place)
        return tail_of(*place)

    monkeypatch.setattr(scan_plan, "tail_of", tail)
    assert acid.sql("select max(p) from d").collect() == [("d3",)]
    assert len(tails) == 1


def test_a_condition_on_the_greatest_partition_reads_that_one(days, acid, rows, plans):
    texts = {
        "p = (select max(p) from d)": (10, 1),
        "p in (select max(p) from d)": (10, 1),
        "p > (select min(p) from d)": (30, 3),
        "id >= (select max(id) - 4 from d)": (5, 4),
    }
    for condition, (count, parts) in texts.items():
        plans.clear()
        assert rows(f"select count(v) from d where {condition}") == [(count,)], condition
        assert len(plans[-1].parts) == parts, condition
        acid.sql("set hive.compute.query.using.stats=false")
        assert rows(f"select count(v) from d where {condition}") == [(count,)], condition
        assert len(plans[-1].parts) == 4, condition
        acid.sql("reset hive.compute.query.using.stats")
    explained = "\n".join(
        row[0]
        for row in acid.sql("explain select v from d where p = (select max(p) from d)").collect()
    )
    assert "partitions 1 of 4" in explained


def test_statements_that_write_are_answered_in_their_own_snapshot(days, acid, rows):
    acid.sql("create table new as select id from d where p = (select max(p) from d)")
    assert rows("select count(id) from new") == [(10,)]
    acid.sql("start transaction")
    acid.sql("insert into d values (77, 1, 'd9')")
    acid.sql("update d set v = 2 where p = (select max(p) from d)")
    assert rows("select id, v from d where v <> 1") == [(77, 2)]
    acid.sql("rollback")
    assert acid.sql("delete from d where p = (select max(p) from d)").rows == 10
    assert acid.sql("delete from d where id = (select min(id) from d)").rows == 1
    acid.sql("insert into d select id, 3, 'd8' from d where id >= (select max(id) from new)")
    assert rows("select max(p), count(*) from d") == [("d2", 29)]


def test_that_there_is_no_greatest_partition_is_read_too(acid):
    acid.sql(f"create table e (id int) partitioned by (p int) {ACID}")
    acid.sql(f"create table w (id int) {ACID}")

    def meanwhile():
        with acid.transaction(isolation="serializable") as txn:
            assert txn.sql("select max(p) from e").collect() == [(None,)]
            txn.sql("insert into w values (1)")
            acid.sql("insert into e values (1, 5)")

    with pytest.raises(ConflictError):
        meanwhile()
