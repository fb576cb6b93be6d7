"""On the database of a Metastore of Hive's own (``make interop`` does so beside the real Hive)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine
from tests.hives_schema import make_hives_own
from tests.postgres import PostgresServer

import hiveacid
from hiveacid.cli.app import app
from hiveacid.clock import SystemClock
from hiveacid.errors import (
    ConflictError,
    ConversionError,
    InvalidInputError,
    MetastoreError,
    MissingFileError,
    UnsupportedError,
)
from hiveacid.metastore.connect import Opening, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.compactions import format_map
from hiveacid.model.transactions import TxnState
from hiveacid.session import Session

pytestmark = pytest.mark.long("compaction", "metastore", "model", "statements", "txn")

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def hives_url(postgres: PostgresServer, tmp_path: Path) -> str:
    url = postgres.metastore()
    make_hives_own(url, warehouse=str(tmp_path / "managed"))
    return url


@pytest.fixture
def acid(hives_url: str) -> Iterator[Session]:
    connect(hives_url, clock=SystemClock(), opening=Opening.UPGRADE).close()
    with hiveacid.connect(None, hives_url) as opened:
        yield opened


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    engine = create_engine(url)
    with engine.begin() as connection:
        found = connection.exec_driver_sql(sql)
        rows = [tuple(row) for row in found] if found.returns_rows else []
    engine.dispose()
    return rows


def test_tables_of_ours_are_added_where_that_was_asked_for(hives_url: str, tmp_path: Path) -> None:
    with pytest.raises(MetastoreError, match="of a Metastore of Hive's, to which") as caught:
        hiveacid.connect(None, hives_url, warehouse=str(tmp_path / "managed"))
    assert "metastore upgrade" in caught.value.__notes__[0]
    assert ask(hives_url, "select 1 from pg_tables where tablename ~ 'HIVEACID_'") == []
    done = CliRunner().invoke(app, ["metastore", "upgrade", hives_url])
    assert (done.exit_code, done.output.partition(": ")[2]) == (0, "schema version 6\n")
    assert CliRunner().invoke(app, ["metastore", "check", hives_url]).exit_code == 0
    for warehouse in (None, str(tmp_path / "managed"), str(tmp_path / "managed-external")):
        hiveacid.connect(None, hives_url, warehouse=warehouse).close()


def test_another_schema_of_hives_is_left_as_it_is(hives_url: str) -> None:
    ask(hives_url, 'drop index "TXN_STATE_IDX"')  # as in 4.0
    with pytest.raises(MetastoreError, match=r"another Hive than 4\.1, and was left .* TXN_STATE"):
        connect(hives_url, clock=SystemClock(), opening=Opening.UPGRADE)
    assert ask(hives_url, "select 1 from pg_tables where tablename ~ 'HIVEACID_'") == []


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0"])
def test_a_schema_of_another_hive_is_refused(acid: Session, hives_url: str, version: str) -> None:
    """Also where a service of Hive's has been upgraded since."""
    change = """update "VERSION" set "SCHEMA_VERSION" = '{}'"""
    ask(hives_url, change.format(version))
    for opening in (Opening.EXISTING, Opening.UPGRADE):
        with pytest.raises(MetastoreError, match=rf"of schema version {version}; known are 4\.1"):
            connect(hives_url, clock=SystemClock(), opening=opening)
    ask(hives_url, change.format("4.2.0"))
    connect(hives_url, clock=SystemClock()).close()


def test_tables_go_where_hive_puts_them(acid: Session, tmp_path: Path) -> None:
    acid.sql("create database d")
    for name in ("t", "d.t"):
        acid.sql(f"create table {name} (i int) {ACID}")
        acid.sql(f"create external table {name}_e (i int) stored as orc")
    found = {name: acid.table(name).definition.location for name in ("t", "t_e", "d.t", "d.t_e")}
    assert found == {
        "t": f"{tmp_path}/managed/t",
        "t_e": f"{tmp_path}/managed-external/t_e",
        "d.t": f"{tmp_path}/managed/d.db/t",
        "d.t_e": f"{tmp_path}/managed-external/d.db/t_e",
    }
    acid.sql("insert into d.t values (1)")
    acid.sql("alter table d.t rename to t2")
    assert acid.table("t2").definition.location == f"{tmp_path}/managed/t2"
    acid.sql("drop database d cascade")
    assert not (tmp_path / "managed/d.db").exists()


def test_nothing_that_hangs_on_a_row_keeps_it(acid: Session, hives_url: str) -> None:
    """Privileges, skewed columns, buckets of a partition: Hive's, which foreign keys point from."""
    acid.sql("create database d")
    acid.sql(
        f"create table d.t (i int) partitioned by (p string) clustered by (i) into 2 buckets {ACID}"
    )
    acid.sql("insert into d.t values (1, 'a'), (2, 'b'), (3, 'c')")
    for name, owner in (
        ("TBL_PRIVS", "TBLS"),
        ("TBL_COL_PRIVS", "TBLS"),
        ("PART_PRIVS", "PARTITIONS"),
        ("PART_COL_PRIVS", "PARTITIONS"),
        ("SKEWED_COL_NAMES", "SDS"),
        ("SKEWED_COL_VALUE_LOC_MAP", "SDS"),
        ("DB_PRIVS", "DBS"),
    ):
        key = {"TBLS": "TBL_ID", "PARTITIONS": "PART_ID", "SDS": "SD_ID", "DBS": "DB_ID"}[owner]
        ask(hives_url, f'insert into "{name}" ("{key}") select "{key}" from "{owner}"')
    ask(hives_url, 'insert into "SKEWED_VALUES" ("SD_ID_OID") select "SD_ID" from "SDS"')
    ask(
        hives_url,
        'insert into "BUCKETING_COLS" ("SD_ID", "BUCKET_COL_NAME", "INTEGER_IDX") '
        """select "SD_ID", 'i', 0 from "PARTITIONS" """,
    )
    ask(
        hives_url,
        'insert into "SERDE_PARAMS" ("SERDE_ID", "PARAM_KEY", "PARAM_VALUE") '
        """select "SERDE_ID", 'serialization.format', '1' from "SDS" """,
    )
    acid.sql("alter table d.t drop partition (p = 'a')")
    acid.sql("alter table d.t partition (p = 'b') rename to partition (p = 'z')")
    rows = hiveacid.read_arrow(acid.table("d.t")).read_all().sort_by("i").to_pylist()
    assert rows == [{"i": 2, "p": "z"}, {"i": 3, "p": "c"}]
    acid.sql("drop database d cascade")
    for name in (
        "TBL_PRIVS",
        "PART_PRIVS",
        "SKEWED_VALUES",
        "SERDE_PARAMS",
        "BUCKETING_COLS",
        "SDS",
    ):
        assert ask(hives_url, f'select * from "{name}"') == [], name


@pytest.mark.parametrize(
    ("needs", "statement", "what"),
    [
        ("MV_TABLES_USED", "drop table d.t", "a materialized view of Hive's needs it"),
        ("FUNCS", "drop database d cascade", "a function of Hive's needs it"),
    ],
)
def test_what_hive_needs_is_not_dropped(
    acid: Session, hives_url: str, needs: str, statement: str, what: str
) -> None:
    acid.sql("create database d")
    acid.sql(f"create table d.t (i int) {ACID}")
    acid.sql("insert into d.t values (1)")
    key, owner = ("DB_ID", "DBS") if "database" in statement else ("TBL_ID", "TBLS")
    ask(hives_url, f'insert into "{needs}" ("{key}") select max("{key}") from "{owner}"')
    with pytest.raises(InvalidInputError, match=what):
        acid.sql(statement)
    assert hiveacid.read_arrow(acid.table("d.t")).read_all().num_rows == 1


def test_constraints_are_kept_where_hive_looks_for_them(acid: Session, hives_url: str) -> None:
    acid.sql(
        "create table t (i int not null, s string default 'q', n int,"
        f" constraint few check (n < 9)) {ACID}"
    )
    kept = (
        'select "CONSTRAINT_TYPE", "CONSTRAINT_NAME", "PARENT_INTEGER_IDX", "DEFAULT_VALUE" '
        'from "KEY_CONSTRAINTS" order by 1'
    )
    assert ask(hives_url, kept) == [
        (3, "nn_t_i", 0, None),
        (4, "dc_t_s", 1, "'q'"),
        (5, "few", -1, "n < 9"),
    ]
    assert ask(hives_url, """select * from "TABLE_PARAMS" where "PARAM_KEY" ~ 'not_null'""") == []
    text = str(acid.sql("show create table t"))
    assert "`i` int NOT NULL" in text and "DEFAULT 'q'" in text and "`few` CHECK (n < 9)" in text
    acid.sql("alter table t drop constraint few")
    with pytest.raises(ConversionError, match="NOT NULL constraint violated"):
        hiveacid.write_arrow(acid.table("t"), pa.table({"i": pa.nulls(1, pa.int32())}))
    acid.sql("alter table t add columns (later int)")
    assert [row[1] for row in ask(hives_url, kept)] == ["nn_t_i", "dc_t_s"]
    ask(hives_url, """update "KEY_CONSTRAINTS" set "ENABLE_VALIDATE_RELY" = 0""")  # DISABLE
    assert "NOT NULL" not in str(acid.sql("show create table t"))
    acid.sql("drop table t")
    assert ask(hives_url, kept) == []


def test_a_constraint_without_rely_stays_one(acid: Session, hives_url: str) -> None:
    """Hive leaves out conditions that one with it implies, whatever rows there are."""
    acid.sql(f"create table t (i int not null) {ACID}")
    ask(hives_url, 'update "KEY_CONSTRAINTS" set "ENABLE_VALIDATE_RELY" = 4')
    acid.sql("alter table t add columns (later int)")
    assert ask(hives_url, 'select "ENABLE_VALIDATE_RELY" from "KEY_CONSTRAINTS"') == [(4,)]


def test_not_null_of_a_partition_column_is_kept_as_hive_does(acid: Session, hives_url: str) -> None:
    acid.sql(f"create table t (i int) partitioned by (p int, q string not null) {ACID}")
    kept = 'select "PARENT_CD_ID", "PARENT_INTEGER_IDX" from "KEY_CONSTRAINTS"'
    assert ask(hives_url, kept) == [(None, 1)]
    acid.sql("alter table t set tblproperties ('note'='x')")
    assert ask(hives_url, kept) == [(None, 1)]
    assert acid.table("t").definition.properties["hiveacid.not_null.q"] == "nn_t_q"


def test_what_hive_replaced_since_the_snapshot_is_not_written_to(
    acid: Session, hives_url: str
) -> None:
    """Its TRUNCATE leaves a base, and no word in the tables of transactions."""
    for name in ("t", "u"):
        acid.sql(f"create table {name} (i int) {ACID}")
    acid.sql("insert into t values (1)")
    name = acid.table("t").definition.name
    with (
        pytest.raises(ConflictError, match=r"replaced what transaction .*/base_0000002"),
        acid.transaction() as late,
        connect(hives_url, clock=SystemClock()) as hive,
    ):
        late.sql("insert into u values (1)")
        (txn,) = hive.open_txns(1, user="hive", host="hs2")
        hive.allocate_write_ids((txn,), name)
        base = Path(acid.table("t").definition.location, "base_0000002")
        base.mkdir()
        marker = '{"thisFileVersion":"0","dataFormat":"truncated"}'
        (base / "_metadata_acid").write_text(marker, "utf-8")
        hive.commit_txn(txn)
        late.sql("insert into t values (2)")
    acid.sql("insert into t values (3)")
    assert hiveacid.read_arrow(acid.table("t")).read_all().to_pylist() == [{"i": 3}]


def forget_write_ids_as_hive_does(url: str) -> None:
    """Its housekeeping: all of the transactions below the lowest that is open or aborted."""
    ask(
        url,
        """delete from "TXN_TO_WRITE_ID" where "T2W_TXNID" < (
        select min("TXN_ID") from "TXNS" where "TXN_STATE" in ('a', 'o'))""",
    )


def test_what_an_old_transaction_wrote_last_stays_in_sight(acid: Session, hives_url: str) -> None:
    """The highest write id that is remembered is where the list of a reader ends."""
    for name in ("t", "u"):
        acid.sql(f"create table {name} (i int) {ACID}")
    acid.sql("insert into t values (1)")
    name = acid.table("t").definition.name
    with (
        acid.transaction() as late,
        connect(hives_url, clock=SystemClock()) as hive,
    ):
        late.sql("insert into u values (1)")
        (txn,) = hive.open_txns(1, user="hive", host="hs2")
        hive.allocate_write_ids((txn,), name)
        late.sql("insert into t values (2)")
        hive.abort_txn(txn)
    written = [one.write_id for one in acid.table("t").history()]
    forget_write_ids_as_hive_does(hives_url)
    rows = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert sorted(row["i"] for row in rows) == [1, 2]
    assert [one.write_id for one in acid.table("t").history()] == written


def test_a_stream_knows_its_batch_after_a_rename_of_hives(acid: Session, hives_url: str) -> None:
    acid.sql(f"create table t (i int) {ACID}")

    with acid.transaction() as txn:
        assert txn.begin_batch("stream", 1, table="t")
        txn.sql("insert into t values (1)")
    ask(hives_url, """update "TBLS" set "TBL_NAME" = 'u'""")
    for table in ("TXN_TO_WRITE_ID", "NEXT_WRITE_ID"):
        column = "T2W_TABLE" if table.startswith("TXN") else "NWI_TABLE"
        ask(hives_url, f"""update "{table}" set "{column}" = 'u'""")
    for number, is_new in ((1, False), (2, True), (2, False)):
        with acid.transaction() as txn:
            assert txn.begin_batch("stream", number, table="u") is is_new
            if is_new:
                txn.sql("insert into u values (2)")
    assert hiveacid.read_arrow(acid.table("u")).read_all().num_rows == 2


def test_what_hive_has_dropped_softly_is_left_to_its_cleaner(acid: Session, hives_url: str) -> None:
    """Its request names the directory, also of a partition of a table that is there."""
    acid.sql(f"create table t (i int) {ACID}")
    gone = "gone", format_map({"location": "/w/gone.v7", "ifPurge": "true"})
    ask(
        hives_url,
        """insert into "COMPACTION_QUEUE" ("CQ_ID", "CQ_DATABASE", "CQ_TABLE", "CQ_STATE",
        "CQ_TYPE", "CQ_TBLPROPERTIES", "CQ_HIGHEST_WRITE_ID") values """
        f"(1, 'default', '{gone[0]}', 'r', 'a', '{gone[1]}', 1), "
        f"(2, 'default', 't', 'r', 'a', '{gone[1]}', 1)",
    )
    acid.clean()
    assert ask(hives_url, 'select "CQ_ID" from "COMPACTION_QUEUE" order by 1') == [(1,), (2,)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_version_without_what_hive_dropped_is_an_error(
    acid: Session, hives_url: str, version: int
) -> None:
    """Of two partitions that both commits wrote to; the third commit is Hive's own."""
    acid.sql(f"create table t (i int) partitioned by (p int) {ACID}")
    for value in (1, 2):
        acid.sql(f"insert into t values ({value}, 1), ({value}, 2)")
    with connect(hives_url, clock=SystemClock()) as hive:
        (txn,) = hive.open_txns(1, user="hive", host="hs2")
        hive.allocate_write_ids((txn,), acid.table("t").definition.name)
        hive.commit_txn(txn)
    ask(hives_url, 'delete from "HIVEACID_COMMITS" where "HC_WRITEID" = 3')
    t = acid.table("t")
    assert hiveacid.read_arrow(t, as_of_write_id=version).read_all().num_rows == 4
    assert hiveacid.read_changes(t, since=0).read_all().num_rows == 4
    shutil.rmtree(Path(t.definition.location, "p=1"))
    for child in ("PARTITION_KEY_VALS", "PARTITION_PARAMS", "PARTITIONS"):
        part = """select "PART_ID" from "PARTITIONS" where "PART_NAME" = 'p=1'"""
        ask(hives_url, f'delete from "{child}" where "PART_ID" in ({part})')
    assert hiveacid.read_arrow(t).read_all().num_rows == 2
    with pytest.raises(MissingFileError, match="Hive dropped or renamed a partition"):
        hiveacid.read_arrow(t, as_of_write_id=version).read_all()
    with pytest.raises(MissingFileError, match="Hive dropped or renamed a partition"):
        hiveacid.read_changes(t, since=0)


def test_rows_are_not_counted_by_statistics(acid: Session, hives_url: str) -> None:
    """Other clients of Hive's Metastore commit without a word about them."""
    acid.sql(f"create table t (i int) {ACID}")
    acid.sql("insert into t values (1), (2)")
    ask(
        hives_url,
        """insert into "TABLE_PARAMS" ("TBL_ID", "PARAM_KEY", "PARAM_VALUE")
        select "TBL_ID", 'COLUMN_STATS_ACCURATE', '{"BASIC_STATS":"true"}' from "TBLS" """,
    )
    name = acid.table("t").definition.name
    own = acid.client.own
    assert own.row_count(name, own.valid_write_ids((name,))[0]) is None
    found = acid.doctor()
    assert [one for one in found.findings if one.kind == "statistics"] == []
    assert found.advice[0].command.startswith("pg_dump --format=custom postgresql://")
    acid.sql("insert into t values (3)")
    accurate = """select * from "TABLE_PARAMS" where "PARAM_KEY" = 'COLUMN_STATS_ACCURATE'"""
    assert ask(hives_url, accurate) == []  # Hive answers count(*) by them


def test_readers_hold_up_hives_cleaner(acid: Session) -> None:
    """It knows no retention."""
    assert acid.client.own.is_served_by_hive()


def test_hives_clients_are_timed_out_by_hive(acid: Session, hives_url: str) -> None:
    options = MetastoreOptions(txn_timeout_ms=-60_000)
    held = """insert into "AUX_TABLE" ("MT_KEY1", "MT_KEY2") values ('HouseKeeper', 0)"""
    ask(hives_url, held)
    with connect(hives_url, clock=SystemClock(), options=options) as impatient:
        (txn,) = impatient.open_txns(1, user="hive", host="hs2")
        assert impatient.run_housekeeping(interval_s=0)
        assert impatient.perform_timeouts() == ()
        info = impatient.txn_info(txn)
    assert info is not None
    assert info.state is TxnState.OPEN
    keys = """select "MT_KEY2" from "AUX_TABLE" where "MT_KEY1" = 'HouseKeeper'"""
    assert ask(hives_url, keys) == [(0,)]


def test_separators_are_read_where_hive_keeps_them(acid: Session, hives_url: str) -> None:
    acid.sql("create external table t (i int, s string) stored as textfile")
    for key, value in (("field.delim", ","), ("serialization.format", ",")):  # as Hive does
        ask(
            hives_url,
            'insert into "SERDE_PARAMS" ("SERDE_ID", "PARAM_KEY", "PARAM_VALUE") '
            f"""select "SERDE_ID", '{key}', '{value}' from "SDS" """,
        )
    acid.sql("insert into t values (1, 'a')")
    (file,) = Path(acid.table("t").definition.location).glob("0*")
    assert file.read_text("utf-8") == "1,a\n"
    acid.sql("alter table t set serdeproperties ('field.delim'=';')")
    acid.sql("alter table t set tblproperties ('note'='x')")
    kept = 'select "PARAM_VALUE" from "{}_PARAMS" where "PARAM_KEY" = \'field.delim\''
    assert ask(hives_url, kept.format("SERDE")) == [(";",)]
    assert ask(hives_url, kept.format("TABLE")) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("""update "SERDES" set "SLIB" = 'com.acme.Csv'""", "the SerDe com.acme.Csv, which"),
        ("""update "SDS" set "INPUT_FORMAT" = null""", "has the input format None"),
    ],
)
def test_other_formats_are_refused(acid: Session, hives_url: str, change: str, what: str) -> None:
    acid.sql("create external table t (i int, s string) stored as textfile")
    ask(hives_url, change)
    with pytest.raises(UnsupportedError, match=what):
        acid.sql("insert into t values (1, 'a')")
    assert "t" in str(acid.sql("show tables"))
    acid.sql(f"create table other (i int) {ACID}")
    assert [one for one in acid.doctor().findings if one.kind == "unreadable"] == []
    acid.clean()


@pytest.mark.parametrize(
    "change",
    [
        """update "COMPACTION_QUEUE" set "CQ_TYPE" = '*' where "CQ_TABLE" = 't'""",
        """update "SERDES" set "SLIB" = 'com.acme.Csv'""",
        """update "TBLS" set "TBL_TYPE" = 'MATERIALIZED_VIEW' where "TBL_NAME" = 't'""",
        """insert into "SORT_COLS" ("SD_ID", "COLUMN_NAME", "ORDER", "INTEGER_IDX")
        select "SD_ID", 'i', 1, 0 from "TBLS" where "TBL_NAME" = 't'""",
    ],
)
def test_requests_that_only_hive_can_do_wait_for_it(
    acid: Session, hives_url: str, change: str
) -> None:
    for name in ("t", "u"):
        acid.sql(f"create table {name} (i int) {ACID}")
        acid.sql(f"insert into {name} values (1)")
        acid.sql(f"alter table {name} compact 'major'")
    serdes = """select "SERDE_ID" from "SDS" join "TBLS" using ("SD_ID") where "TBL_NAME" = 't'"""
    ask(hives_url, f'{change} where "SERDE_ID" = ({serdes})' if "SLIB" in change else change)
    worker = acid.compacting.compactor().worker()
    done = worker.run_next()
    assert done is not None and done.compaction.table.table == "u"
    assert worker.run_next() is None
    (waits,) = acid.compactions(status="initiated")
    assert waits.table.table == "t"


@pytest.mark.parametrize(
    "change",
    [
        """update "SDS" set "INPUT_FORMAT" = 'org.apache.hadoop.mapred.TextInputFormat'
        where "SD_ID" = (select "SD_ID" from "PARTITIONS" where "PART_NAME" = 'p=2')""",
        """update "SERDES" set "SLIB" = 'org.apache.hadoop.hive.serde2.JsonSerDe'
        where "SERDE_ID" = (select max("SERDE_ID") from "SERDES")""",
    ],
)
def test_partitions_of_another_format_are_refused(
    acid: Session, hives_url: str, change: str
) -> None:
    acid.sql("create external table t (i int) partitioned by (p int) stored as orc")
    acid.sql("insert into t values (1, 1)")
    acid.sql("insert into t values (2, 2)")
    ask(hives_url, change)
    acid.clean()
    with pytest.raises(UnsupportedError, match=r"Partition p=2 of default\.t has another format"):
        hiveacid.read_arrow(acid.table("t")).read_all()


def test_partitions_have_the_separators_of_their_table(acid: Session, hives_url: str) -> None:
    """Hive reads a partition by what is kept with it alone."""
    rows = "partitioned by (p int) row format delimited fields terminated by ','"
    acid.sql(f"create external table t (s string) {rows} stored as textfile")
    acid.sql("insert into t values ('a', 1), ('b', 2)")
    kept = """select "PARAM_VALUE" from "SERDE_PARAMS" where "PARAM_KEY" = 'field.delim'"""
    assert ask(hives_url, kept) == [(",",)] * 3
    assert ask(hives_url, """select 1 from "TABLE_PARAMS" where "PARAM_KEY" ~ 'delim'""") == []
    assert hiveacid.read_arrow(acid.table("t")).read_all().num_rows == 2
    acid.sql("alter table t set serdeproperties ('field.delim'=';')")  # of partitions to come
    with pytest.raises(UnsupportedError, match="or other separators"):
        hiveacid.read_arrow(acid.table("t")).read_all()


def test_what_is_no_table_of_ours_is_told(acid: Session, hives_url: str) -> None:
    acid.sql(f"create table v (i int) {ACID}")
    ask(hives_url, """update "TBLS" set "TBL_TYPE" = 'MATERIALIZED_VIEW'""")
    assert "v" in str(acid.sql("show tables"))
    with pytest.raises(UnsupportedError, match=r"default\.v is a MATERIALIZED_VIEW of Hive's"):
        acid.table("v")
