"""DDL, SHOW, DESCRIBE, SET: text -> value."""

from __future__ import annotations

import pytest
from tests.unit.sql.catalog import INT, STRING, S, T, bound

from hiveacid.errors import AcidError, InvalidInputError, SqlSyntaxError, UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.predicates import Compare, Op, Or
from hiveacid.model.tables import BucketSpec, Column, FileFormat, Isolation, SortColumn, TableName
from hiveacid.model.types import (
    CharType,
    DecimalType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    VarcharType,
)
from hiveacid.sql import parse, parse_columns, parse_one, parse_table_name
from hiveacid.sql.columns import parse_column_type
from hiveacid.sql.cursor import Cursor, tokenize
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.compact import AbortCompactions, Compact, ShowCompactions, SortItem
from hiveacid.statements.constraints import Constraints, KeyConstraint
from hiveacid.statements.ddl.columns import (
    AddColumns,
    AddConstraints,
    ChangeColumn,
    DropConstraint,
    SetTableProperties,
    UnsetTableProperties,
)
from hiveacid.statements.ddl.databases import CreateDatabase, DropDatabase, SetDatabaseProperties
from hiveacid.statements.ddl.partitions import (
    AddPartitions,
    DropPartitions,
    PartitionToAdd,
    RenamePartition,
    RepairTable,
)
from hiveacid.statements.ddl.tables import CreateTable, DropTable, RenameTable, SetLocation
from hiveacid.statements.describe import DescribeDatabase, DescribeTable, Explain
from hiveacid.statements.insert import Truncate
from hiveacid.statements.session_state import (
    AbortTransactions,
    Begin,
    Commit,
    LockDatabase,
    LockTable,
    ReleaseSavepoint,
    ResetProperties,
    Rollback,
    Savepoint,
    SetAutocommit,
    SetProperty,
    SetTransaction,
    UnlockDatabase,
    UnlockTable,
    UseDatabase,
)
from hiveacid.statements.show import (
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    ShowTransactions,
)
from hiveacid.statements.values import Insert, Literals, Query, TableRef

X = TableName("default", "x")
ID = (Column("id", INT),)

VALUES = {
    "create database if not exists D comment 'c' location '/l' with dbproperties ('a'='b')": (
        CreateDatabase("d", True, "c", "/l", {"a": "b"})
    ),
    "alter table t add column c int comment 'x'": (AddColumns(T, (Column("c", INT, "x"),), False)),
    "alter table t add columns (c int)": AddColumns(T, (Column("c", INT),), False),
    "comment on table t is 'it''s'": SetTableProperties(T, {"comment": "its"}),
    "comment on table d2.s is null": UnsetTableProperties(S, ("comment",), True),
    "alter table t convert to acid": SetTableProperties(T, {"transactional": "true"}),
    "alter table t convert to acid tblproperties ('transactional_properties'='insert_only')": (
        SetTableProperties(T, {"transactional": "true", "transactional_properties": "insert_only"})
    ),
    "alter table t set serdeproperties ('field.delim'=',')": (
        SetTableProperties(T, {"field.delim": ","})
    ),
    "create transactional table x (id int) stored as textfile": (
        CreateTable(
            X,
            columns=ID,
            format=FileFormat.TEXT,
            properties={"transactional": "true", "transactional_properties": "insert_only"},
        )
    ),
    "create table x (id int) using HiveAcid": (
        CreateTable(X, ID, format=FileFormat.ORC, properties={"transactional": "true"})
    ),
    "create or replace table x (p string, id int) partitioned by (P)": (
        CreateTable(X, ID, (Column("p", STRING),), or_replace=True)
    ),
    "replace table x (id int)": CreateTable(X, ID, or_replace=True, must_exist=True),
    "describe table t": DescribeTable(T),
    "create schema d": CreateDatabase("d"),
    "drop database if exists d cascade": DropDatabase("d", True, True),
    "use D2": UseDatabase("d2"),
    "set a.b=c d": SetProperty("a.b", "c d"),
    "SET hive.x = ": SetProperty("hive.x", ""),
    "set hive.x": SetProperty("hive.x"),
    "set": SetProperty(),
    "set -v": SetProperty(),
    "reset": ResetProperties(),
    "reset a b": ResetProperties(("a", "b")),
    "create table x (id int)": CreateTable(X, ID),
    "create table d2.x (ID int comment 'it\\'s', `v` string) comment 'c' partitioned by (p string, "
    "q int comment 'q') clustered by (id, v) sorted by (id desc) into 4 buckets stored as orc "
    "location 'file:/l' tblproperties ('transactional'='true', \"k\"='v')": CreateTable(
        TableName("d2", "x"),
        (Column("id", INT, "it's"), Column("v", STRING)),
        (Column("p", STRING), Column("q", INT, "q")),
        bucket=BucketSpec(("id", "v"), 4),
        sort_columns=(SortColumn("id", is_descending=True),),
        format=FileFormat.ORC,
        location="file:/l",
        properties={"transactional": "true", "k": "v"},
        comment="c",
    ),
    "create external table if not exists x (id int) row format serde "
    "'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' stored as textfile": (
        CreateTable(X, ID, format=FileFormat.TEXT, external=True, if_not_exists=True)
    ),
    "create table x (id int) row format serde "
    "'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'": (
        CreateTable(X, ID, format=FileFormat.PARQUET)
    ),
    "create table x (id int) row format delimited fields terminated by ','": CreateTable(
        X, ID, format=FileFormat.TEXT, properties={"field.delim": ",", "serialization.format": ","}
    ),
    "create table x (id int) row format delimited stored as orc": (
        CreateTable(X, ID, format=FileFormat.ORC)
    ),
    "create transactional table x (id int)": (
        CreateTable(X, ID, properties={"transactional": "true"})
    ),
    "create table x (id int not null, v string default 'a,b' enable novalidate, constraint pk "
    "primary key (id) disable novalidate rely, check (id > 0 and v in ('x', ')')))": (
        CreateTable(
            X,
            (*ID, Column("v", STRING)),
            constraints=Constraints(
                not_null=("id",),
                defaults={"v": "'a,b'"},
                checks=("id > 0 and v in ('x', ')')",),
                keys=(KeyConstraint("pk", "PRIMARY KEY", ("id",), rely=True),),
            ),
        )
    ),
    "create table x (id int check id > 5 enable, v string check (v = 'a') or v is null)": (
        CreateTable(
            X,
            (*ID, Column("v", STRING)),
            constraints=Constraints(checks=("id > 5", "(v = 'a') or v is null")),
        )
    ),
    "create table x (id int constraint d default 5)": (
        CreateTable(X, ID, constraints=Constraints(defaults={"id": "5"}, names={"default.id": "d"}))
    ),
    "alter table t add constraint c check (id > 0)": AddConstraints(
        T, Constraints(checks=("id > 0",), names={"id > 0": "c"})
    ),
    "alter table t add foreign key (a) references d2.s(b) disable novalidate": AddConstraints(
        T, Constraints(keys=(KeyConstraint("", "FOREIGN KEY", ("a",), False, "d2.s", ("b",)),))
    ),
    "alter table t drop constraint c": DropConstraint(T, "c"),
    "alter table t partition (p=1) set location '/x'": SetLocation(T, "/x", (("p", "1"),)),
    "msck repair table t sync partitions": RepairTable(T, drop=True),
    "msck table t": RepairTable(T, repair=False),
    "analyze table t compute statistics for all columns": Analyze(T, (), ()),
    "analyze table t partition (p=1, q) compute statistics for columns a, b": Analyze(
        T, (("p", "1"),), ("a", "b")
    ),
    "analyze table t compute statistics noscan": Analyze(T, noscan=True),
    "create table x (id int default -1 comment 'c', d date default date '2020-01-01', "
    "e string default cast(1 as string) not null disable)": CreateTable(
        X,
        (Column("id", INT, "c"), Column("d", PrimitiveType("date")), Column("e", STRING)),
        constraints=Constraints(
            defaults={"id": "-1", "d": "date '2020-01-01'", "e": "cast(1 as string)"}
        ),
    ),
    "create table x like t tblproperties ('a'='b')": (
        CreateTable(X, properties={"a": "b"}, like=T)
    ),
    "create table x partitioned by (p) stored as orc as select id, p from t order by id": (
        CreateTable(
            X,
            partition_names=("p",),
            format=FileFormat.ORC,
            query=Query("select id, p from P0 as `t` order by id NULLS LAST", {"P0": TableRef(T)}),
        )
    ),
    "create table x as with q as (select 1 a) select * from q": (
        CreateTable(X, query=Query("with q as (select 1 a) select * from q"))
    ),
    "drop table if exists d2.s purge": DropTable(S, True, True),
    "truncate table t": Truncate(T),
    "truncate t partition (p='x', q)": Truncate(T, (("p", "x"),), every=("q",)),
    "truncate table t force": Truncate(T, force=True),
    "alter table t set tblproperties ('a'='b')": SetTableProperties(T, {"a": "b"}),
    "alter table t unset tblproperties if exists ('a', 'b')": (
        UnsetTableProperties(T, ("a", "b"), True)
    ),
    "alter table t add if not exists partition (p='a', q=1) partition (p=null) location '/x'": (
        AddPartitions(
            T,
            (
                PartitionToAdd((("p", "a"), ("q", "1"))),
                PartitionToAdd((("p", None),), "/x"),
            ),
            True,
        )
    ),
    "alter table t drop if exists partition (p>2), partition (q='a') purge": (
        DropPartitions(
            T,
            Or((Compare("p", Op.GT, "2"), Compare("q", Op.EQ, "a"))),
            True,
            True,
        )
    ),
    "alter table t rename to d2.y": RenameTable(T, TableName("d2", "y")),
    "alter table t partition (p='a') rename to partition (p='b')": (
        RenamePartition(T, (("p", "a"),), (("p", "b"),))
    ),
    "alter table t add columns (a int, b string comment 'x') cascade": (
        AddColumns(T, (Column("a", INT), Column("b", STRING, "x")))
    ),
    "alter table t replace columns (id int)": AddColumns(T, ID, True),
    "alter table t change column v w string comment 'c'": (ChangeColumn(T, "v", "w", STRING, "c")),
    "alter table t change v v string": ChangeColumn(T, "v", "v", STRING),
    "alter table t rename column v to w": ChangeColumn(T, "v", "w"),
    "alter table t alter column v type string comment 'c'": ChangeColumn(T, "v", "v", STRING, "c"),
    "alter table t alter v after w": ChangeColumn(T, "v", "v", after="w"),
    "alter table t partition (p='a') compact 'MAJOR' and wait": (
        Compact(T, "major", (("p", "a"),), True)
    ),
    "alter table t compact 'rebalance' clustered into 4 buckets and wait pool 'p' with overwrite "
    "tblproperties ('a'='b') order by v desc, `a b` nulls first": Compact(
        T,
        "rebalance",
        wait=True,
        properties={"a": "b"},
        pool="p",
        buckets=4,
        order_by=(SortItem("v", True, True), SortItem("a b", False, True)),
    ),
    "show databases like 'd*'": ShowDatabases("d*"),
    "show schemas": ShowDatabases(),
    "show tables": ShowTables("default"),
    "show tables in d2 'o*'": ShowTables("d2", "o*"),
    "show partitions t partition (p='x')": ShowPartitions(T, (("p", "x"),)),
    "show columns in t": ShowColumns(T),
    "show columns from s in d2": ShowColumns(S),
    "show tblproperties t('a.b')": ShowTableProperties(T, "a.b"),
    "show tblproperties t": ShowTableProperties(T),
    "show create table t": ShowCreateTable(T),
    "show transactions": ShowTransactions(),
    "show locks": ShowLocks(),
    "show locks t partition (p='x') extended": ShowLocks(T, (("p", "x"),), extended=True),
    "lock table t shared": LockTable(T),
    "LOCK TABLE t PARTITION (p='x') EXCLUSIVE": LockTable(T, (("p", "x"),), exclusive=True),
    "lock database D2 exclusive": LockDatabase("d2", exclusive=True),
    "lock schema d2 shared": LockDatabase("d2"),
    "unlock table t": UnlockTable(T),
    "unlock table t partition (p='x')": UnlockTable(T, (("p", "x"),)),
    "unlock database d2": UnlockDatabase("d2"),
    "show locks database d2": ShowLocks(schema="d2"),
    "show compactions": ShowCompactions(),
    "show compactions compactionid = 7": ShowCompactions(CompactionId(7)),
    "show compactions database d2 status 'failed'": ShowCompactions(schema="d2", status="failed"),
    "show compactions t partition (p='a') pool 'x' type 'minor' status 'ready for cleaning' "
    "order by starttime desc, compactionid limit 3": ShowCompactions(
        name=T,
        partition=(("p", "a"),),
        pool="x",
        kind="minor",
        status="ready for cleaning",
        order=(("starttime", True), ("compactionid", False)),
        limit=3,
    ),
    "show compactions pool": ShowCompactions(name=TableName("default", "pool")),
    "alter schema D set dbproperties ('a'='b')": SetDatabaseProperties("d", {"a": "b"}),
    "abort compactions 3 4": AbortCompactions((CompactionId(3), CompactionId(4))),
    "abort transactions 1 2 3": AbortTransactions((1, 2, 3)),  # type: ignore[arg-type]
    "describe t": DescribeTable(T),
    "desc formatted d2.s": DescribeTable(S, formatted=True),
    "describe extended t partition (p='x')": (
        DescribeTable(T, partition=(("p", "x"),), extended=True)
    ),
    "describe t v": DescribeTable(T, ("v",)),
    "describe t V.$VALUE$.f": DescribeTable(T, ("v", "$value$", "f")),
    "alter table t concatenate": Compact(T, "major", wait=True),
    "alter table t unset serdeproperties ('a')": UnsetTableProperties(T, ("a",), if_exists=True),
    "show tables in d2 where `table_type` = 'VIRTUAL_VIEW'": ShowTables("d2", type="VIRTUAL_VIEW"),
    "describe database extended d2": DescribeDatabase("d2", True),
    "explain formatted delete from t": Explain(bound("delete from t"), "formatted"),  # type: ignore[arg-type]
    "explain select 1": Explain(Query("select 1")),
    "explain vectorization only select 1": Explain(Query("select 1"), "vectorization only"),
}


@pytest.mark.parametrize(("text", "expected"), VALUES.items())
def test_value(text: str, expected: object) -> None:
    assert bound(text) == expected


REFUSED: dict[str, type[AcidError]] = {
    "create function f as 'x'": UnsupportedError,
    "create table x (id int) stored by 'iceberg'": UnsupportedError,
    "create table x (id int) stored as avro": UnsupportedError,
    "create table x (i int) stored as inputformat 'a.Avro' outputformat 'b'": UnsupportedError,
    "create table x (i int) stored as textfile with serdeproperties ('a'='b')": SqlSyntaxError,
    "create table x (id int, primary key (id) enable novalidate)": InvalidInputError,
    "alter database d set location '/x'": UnsupportedError,
    "start transaction read only": UnsupportedError,
    "start transaction isolation level read committed": UnsupportedError,
    "set transaction isolation level repeatable read": UnsupportedError,
    "set transaction read write": SqlSyntaxError,
    "start": SqlSyntaxError,
    "begin here": SqlSyntaxError,
    "commit now": SqlSyntaxError,
    "rollback to": SqlSyntaxError,
    "savepoint": SqlSyntaxError,
    "release 'a'": SqlSyntaxError,
    "explain commit": UnsupportedError,
    "set autocommit = maybe": InvalidInputError,
    "lock table t": SqlSyntaxError,
    "lock table t read": SqlSyntaxError,
    "lock t shared": SqlSyntaxError,
    "unlock table t shared": SqlSyntaxError,
    "show grant": UnsupportedError,
    "create table x": SqlSyntaxError,
    "create table x ()": SqlSyntaxError,
    "create table x (id)": SqlSyntaxError,
    "create table x (id nosuchtype)": SqlSyntaxError,
    "create table x (`a.b` int)": SqlSyntaxError,
    "create table x (id int) stored": SqlSyntaxError,
    "create table x (id int) clustered by (id) into 0 buckets": SqlSyntaxError,
    "create table x (c char(256))": SqlSyntaxError,
    "create table x (d decimal(39,0))": SqlSyntaxError,
    "create table a.b.c (id int)": SqlSyntaxError,
    "alter table t set tblproperties ('a')": SqlSyntaxError,
    "alter table t drop partition (p rlike 'x')": SqlSyntaxError,
    "describe": SqlSyntaxError,
    "abort transactions x": SqlSyntaxError,
    "frobnicate": SqlSyntaxError,
    "'x'": SqlSyntaxError,
    "explain": SqlSyntaxError,
}


@pytest.mark.parametrize(("text", "error"), REFUSED.items())
def test_refused(text: str, error: type[AcidError]) -> None:
    with pytest.raises(error):
        bound(text)


def test_the_message_of_an_unknown_type_is_hives() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        bound("create table t (id nosuchtype) stored as orc")
    assert caught.value.message == (
        "line 1:19 cannot recognize input near 'nosuchtype' ')' 'stored' in column type"
    )


TYPES = {
    "INT": INT,
    "integer": INT,
    "double precision": PrimitiveType("double"),
    "timestamp with local time zone": PrimitiveType("timestamp with local time zone"),
    "timestamp": PrimitiveType("timestamp"),
    "decimal": DecimalType(10, 0),
    "numeric(5)": DecimalType(5, 0),
    "decimal(38,18)": DecimalType(38, 18),
    "char(3)": CharType(3),
    "varchar(65535)": VarcharType(65535),
    "array<array<int>>": ListType(ListType(INT)),
    "map<string,struct<A:int,b:array<decimal(4,1)>>>": MapType(
        STRING, StructType((("a", INT), ("b", ListType(DecimalType(4, 1)))))
    ),
    "struct<`x y`:int comment 'c'>": StructType((("x y", INT),)),
}


@pytest.mark.parametrize(("text", "expected"), TYPES.items())
def test_types(text: str, expected: object) -> None:
    cursor = Cursor(source=text, tokens=tokenize(text))
    assert parse_column_type(cursor) == expected
    assert cursor.at_end()


def test_a_script_is_split_at_semicolons_outside_quotes_and_comments() -> None:
    statements = parse("use a;\n-- ; not here\ninsert into t values (';');; /* ; */ use b")
    assert [s.text for s in statements] == ["use a", "insert into t values (';')", "use b"]
    assert [s.line for s in statements] == [1, 3, 3]


def test_parse_one_wants_exactly_one() -> None:
    assert parse_one("use a;").text == "use a"
    for text in ("", " -- x", "use a; use b"):
        with pytest.raises(SqlSyntaxError):
            parse_one(text)


def test_columns_and_names_for_python() -> None:
    assert parse_columns("id int, v string comment 'x'") == (*ID, Column("v", STRING, "x"))
    words = "a struct<b long, c: short>, d byte, e timestamp_ltz, f timestamp_ntz"  # of Spark's
    same = "a struct<b:bigint, c:smallint>, d tinyint, e timestamplocaltz, f timestamp"
    assert parse_columns(words) == parse_columns(same)
    assert parse_table_name("D.T") == TableName("d", "t")
    assert parse_table_name("t").database == ""
    for text in ("a.b.c", "a b", "1+1", ""):
        with pytest.raises(SqlSyntaxError):
            parse_table_name(text)
    with pytest.raises(UnsupportedError):
        parse_columns("id int not null")


def test_explain_of_an_insert() -> None:
    explained = bound("explain insert into d2.s values (1)")
    assert explained == Explain(Insert(S, Literals(((1,),))))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("start transaction", Begin()),
        ("START TRANSACTION ISOLATION LEVEL SNAPSHOT, READ WRITE", Begin(Isolation.SNAPSHOT)),
        ("start transaction isolation level serializable", Begin(Isolation.SERIALIZABLE)),
        (
            "set Transaction isolation level Serializable",
            SetTransaction(Isolation.SERIALIZABLE),
        ),
        ("begin", Begin()),
        ("begin work", Begin()),
        ("begin transaction", Begin()),
        ("commit", Commit()),
        ("commit work", Commit()),
        ("rollback work", Rollback()),
        ("rollback to savepoint a", Rollback("a")),
        ("rollback to A", Rollback("A")),
        ("rollback transaction to savepoint", Rollback("savepoint")),
        ("savepoint `a b`", Savepoint("a b")),
        ("release savepoint a", ReleaseSavepoint("a")),
        ("release a", ReleaseSavepoint("a")),
        ("set autocommit", SetAutocommit()),
        ("set autocommit=true", SetAutocommit(True)),
        ("SET AUTOCOMMIT  OFF", SetAutocommit(False)),
    ],
)
def test_transactions(text: str, value: object) -> None:
    assert bound(text) == value


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("alter table t compact 'rebalance' order by length(v)", UnsupportedError),
        ("alter table t compact 'rebalance' order by v nulls", SqlSyntaxError),
        ("alter table t compact 'major' where p = 1", UnsupportedError),
        ("alter table t compact major", SqlSyntaxError),
        ("alter table t compact 'major' pool 'p' and wait", SqlSyntaxError),
        ("show compactions compactionid = 'x'", SqlSyntaxError),
        ("show compactions t order by 1; drop table t", SqlSyntaxError),
        ("show compactions t order by length(state)", SqlSyntaxError),
        ("show compactions t limit 3 pool 'p'", SqlSyntaxError),
        ("abort compactions", SqlSyntaxError),
    ],
)
def test_clauses_of_compactions_have_one_order_and_plain_columns(
    text: str, error: type[AcidError]
) -> None:
    with pytest.raises(error):
        parse_one(text)


@pytest.mark.parametrize("kind", ["FUNCTION", "TEMPORARY FUNCTION", "TEMPORARY VIEW"])
def test_what_cannot_be_created_is_named(kind: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^CREATE {kind} is not supported"):
        bound(f"create {kind.lower()} f as 'x'")


def test_a_clause_at_the_end_of_the_text_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"\.\.\. FROBNICATE is not supported"):
        bound("alter table t frobnicate")
