"""DESCRIBE FORMATTED, SHOW CREATE TABLE and constraints, against the answers of real Hive 4.1.

Cells are compared without padding; what Hive stores and we do not (the time of the last DDL, names
that it makes up) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hiveacid.errors import FormatError, InvalidInputError, NotFoundError, SqlSyntaxError
from hiveacid.session import Session, connect

pytestmark = pytest.mark.slow

HIVE_CREATE = """\
CREATE TABLE `a`(
  `id` int,
  `v` varchar(5) COMMENT 'the v',
  `d` decimal(10,2))
COMMENT 'a table'
PARTITIONED BY (
  `p` int COMMENT 'part')
CLUSTERED BY (
  `id`)
INTO 2 BUCKETS
ROW FORMAT SERDE
  'org.apache.hadoop.hive.ql.io.orc.OrcSerde'
STORED AS INPUTFORMAT
  'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat'
OUTPUTFORMAT
  'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat'
LOCATION
  'WAREHOUSE/a'
TBLPROPERTIES (
  'bucketing_version'='2',
  'k'='v',
  'transactional'='true',
  'transactional_properties'='default')"""

HIVE_FORMATTED = """\
# col_name|data_type|comment
id|int|
v|varchar(5)|the v
d|decimal(10,2)|
# Partition Information
# col_name|data_type|comment
p|int|part
# Detailed Table Information
Database:|default
OwnerType:|USER
Owner:|OWNER
CreateTime:|TIME
LastAccessTime:|UNKNOWN
Retention:|0
Location:|WAREHOUSE/a
Table Type:|MANAGED_TABLE
Table Parameters:
|COLUMN_STATS_ACCURATE|{\\"BASIC_STATS\\":\\"true\\"}
|bucketing_version|2
|comment|a table
|k|v
|numFiles|0
|numPartitions|0
|numRows|0
|rawDataSize|0
|totalSize|0
|transactional|true
|transactional_properties|default
# Storage Information
SerDe Library:|org.apache.hadoop.hive.ql.io.orc.OrcSerde
InputFormat:|org.apache.hadoop.hive.ql.io.orc.OrcInputFormat
OutputFormat:|org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat
Compressed:|No
Num Buckets:|2
Bucket Columns:|[id]
Sort Columns:|[]"""

HIVE_CONSTRAINTS = """\
# Constraints
# Primary Key
Table:|default.c
Constraint Name:|pk_id_0
Column Name:|id
# Unique Constraints
Table:|default.c
Constraint Name:|u1
Column Name:v|Key Sequence:1
# Not Null Constraints
Table:|default.c
Constraint Name:|nn_c_w
Column Name:|w
# Default Constraints
Table:|default.c
Constraint Name:|dc_c_v
Column Name:v|Default Value:'x'
# Check Constraints
Table:|default.c
Constraint Name:|ck_c_000
Check Value:|ck > 0"""

A = (
    "create table a (id int, v varchar(5) comment 'the v', d decimal(10,2)) comment 'a table' "
    "partitioned by (p int comment 'part') clustered by (id) into 2 buckets stored as orc "
    "tblproperties('transactional'='true','k'='v')"
)
C = (
    "create table c (id int primary key disable novalidate, v string default 'x', "
    "w int not null enable, ck int check (ck > 0) enable, "
    "constraint u1 unique (v) disable novalidate rely) stored as orc "
    "tblproperties('transactional'='true')"
)


@pytest.fixture
def acid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose new tables say nothing of their files, as Hive's do not."""
    monkeypatch.setattr("hiveacid.statements.ddl.tables.with_file_settings", lambda table: table)
    url = f"sqlite:///{tmp_path}/m.db"
    with connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def lines(acid: Session, text: str) -> list[str]:
    """The rows of a listing, cells separated by ``|``, without empty cells at the end."""
    rows = acid.sql(text).rows
    return [found for row in rows if (found := "|".join(cell or "" for cell in row).rstrip("|"))]


def test_show_create_table_is_hives(acid: Session, tmp_path: Path) -> None:
    acid.sql(A)
    found = "\n".join(line.rstrip() for line in lines(acid, "show create table a"))
    assert found == HIVE_CREATE.replace("WAREHOUSE", str(tmp_path / "wh"))
    acid.sql("drop table a")
    acid.sql(found)
    assert "\n".join(line.rstrip() for line in lines(acid, "show create table a")) == found


def test_show_create_table_quotes_the_fields_of_structs(acid: Session) -> None:
    kind = "array<struct<`a b`:int, `m`:map<string,struct<`c`:array<string>>>>>"
    acid.sql(f"create table t (s {kind})")
    assert lines(acid, "show create table t")[1].strip() == f"`s` {kind})"


def test_transactional_properties_alone_are_refused(acid: Session) -> None:
    text = "create table t (id int) tblproperties ({}'transactional_properties'='insert_only')"
    with pytest.raises(InvalidInputError, match="without transactional"):
        acid.sql(text.format(""))
    acid.sql(text.format("'transactional'='true', "))


def test_describe_formatted_is_hives(acid: Session, tmp_path: Path) -> None:
    acid.sql(A)
    table = acid.table("a").definition
    found = lines(acid, "describe formatted a")
    (time,) = [line for line in found if line.startswith("CreateTime:")]
    wanted = (
        HIVE_FORMATTED.replace("WAREHOUSE", str(tmp_path / "wh"))
        .replace("OWNER\n", f"{table.owner}\n")
        .replace("CreateTime:|TIME", time)
    )
    assert found == [line.rstrip("|") for line in wanted.split("\n")]
    acid.sql("alter table a add partition (p=7)")
    of_partition = lines(acid, "describe formatted a partition (p=7)")
    assert "# Detailed Partition Information" in of_partition
    assert "Partition Value:|[7]" in of_partition
    assert "|numRows|0" in of_partition


def test_constraints_are_described_made_again_added_and_dropped(acid: Session) -> None:
    acid.sql(C)
    found = lines(acid, "describe formatted c")
    assert found[found.index("# Constraints") :] == HIVE_CONSTRAINTS.split("\n")
    text = "\n".join(lines(acid, "show create table c"))
    before = acid.table("c").definition.properties
    acid.sql("drop table c")
    acid.sql(text)
    after = acid.table("c").definition.properties
    assert sorted(map(str, after.values())) == sorted(map(str, before.values()))
    acid.sql("alter table c add constraint ck2 check (id < 100) enable novalidate")
    acid.sql("alter table c drop constraint u1")
    acid.sql("alter table c drop constraint nn_c_w")
    left = lines(acid, "describe formatted c")
    assert "Constraint Name:|ck2" in left
    assert "Constraint Name:|u1" not in left
    assert "# Not Null Constraints" not in left
    for refused in (
        "alter table c drop constraint nosuch",
        "alter table c add constraint pk2 primary key (w) disable novalidate",
        "alter table c add constraint ck2 check (id < 1)",
        "create table d (id int primary key enable)",
        "create external table d (id int not null)",
    ):
        with pytest.raises(InvalidInputError):
            acid.sql(refused)


def test_msck_finds_and_forgets_partitions(acid: Session, tmp_path: Path) -> None:
    acid.sql("create external table e (id int) partitioned by (p int, q string)")
    root = tmp_path / "wh" / "e"
    for name in ("p=1/q=a b", "p=2/q=c%2Fd", "other", "_tmp"):
        (root / name).mkdir(parents=True)
    acid.sql("alter table e add partition (p=9, q='z')")
    (root / "p=9" / "q=z").rmdir()
    (root / "p=9").rmdir()
    assert lines(acid, "msck table e") == [
        "Partitions not in metastore:\te:p=1/q=a b\te:p=2/q=c%2Fd"
    ]
    assert lines(acid, "show partitions e") == ["p=9/q=z"]
    acid.sql("msck repair table e")
    assert lines(acid, "show partitions e") == ["p=1/q=a b", "p=2/q=c%2Fd", "p=9/q=z"]
    acid.sql("msck repair table e sync partitions")
    assert lines(acid, "show partitions e") == ["p=1/q=a b", "p=2/q=c%2Fd"]


@pytest.mark.parametrize("others", [("x=1",), ("d=1", "x=1"), ("d=1", "D=2", "d=3/x=1")])
def test_msck_passes_over_foreign_directories_only_where_it_is_told_to(
    acid: Session, tmp_path: Path, others: Sequence[str]
) -> None:
    """As Hive's ``hive.msck.path.validation`` (real-hive.md 9)."""
    acid.sql("create external table e (id int) partitioned by (d int)")
    for name in others:
        (tmp_path / "wh" / "e" / name).mkdir(parents=True)
    with pytest.raises(FormatError, match=others[-1]) as failed:
        acid.sql("msck repair table e")
    assert "SET hive.msck.path.validation=skip" in failed.value.__notes__[0]
    assert lines(acid, "show partitions e") == []
    acid.sql("set hive.msck.path.validation=skip")
    acid.sql("msck repair table e")
    assert lines(acid, "show partitions e") == [one.lower() for one in others[:-1]]
    acid.sql("msck repair table e sync partitions")
    assert lines(acid, "show partitions e") == [one.lower() for one in others[:-1]]


def test_locations_are_set_and_relative_ones_refused(acid: Session, tmp_path: Path) -> None:
    acid.sql("create table t (id int) partitioned by (p int)")
    acid.sql("alter table t add partition (p=1) partition (p=2)")
    there = tmp_path / "there"
    acid.sql(f"alter table t partition (p=1) set location '{there}'")
    acid.sql(f"alter table t set location '{tmp_path}/new'")
    acid.sql("alter table t add partition (p=3)")
    found = {
        part.values[0]: part.location
        for part in acid.client.metastore.list_partitions(acid.table("t").name)
    }
    assert found == {
        "1": str(there),
        "2": f"{tmp_path}/wh/t/p=2",
        "3": f"{tmp_path}/new/p=3",
    }
    with pytest.raises(InvalidInputError, match="not absolute"):
        acid.sql("alter table t set location 'relative'")
    with pytest.raises(NotFoundError):
        acid.sql("alter table t partition (p=77) set location '/x'")


@pytest.mark.parametrize("name", ["sp ace", "select", "a-b", "do.t", "ü", "row"])
def test_names_that_need_quotes(acid: Session, name: str) -> None:
    columns = (
        "`a b` int, `select` int, `operation` int, `rowid` int, `row` struct<a:int>, `ü` string"
    )
    text = f"create table `{name}` ({columns}) stored as orc"
    if "." in name:
        with pytest.raises((InvalidInputError, NotFoundError)):
            acid.sql(text)
        return
    acid.sql(text)
    assert lines(acid, "show tables") == [name]
    again = "\n".join(lines(acid, f"show create table `{name}`"))
    acid.sql(f"drop table `{name}`")
    acid.sql(again)
    assert lines(acid, f"show columns in `{name}`")[:3] == ["a b", "select", "operation"]


def test_partitions_are_shown_by_condition_order_and_limit(acid: Session) -> None:
    acid.sql("create table t (id int) partitioned by (p int, q string)")
    acid.sql("alter table t add partition (p=2,q='b') partition (p=10,q='a') partition (p=1,q='c')")
    shown = "show partitions t where p > 1 order by p desc limit 2"
    assert lines(acid, shown) == ["p=10/q=a", "p=2/q=b"]
    assert lines(acid, "show partitions t order by q") == ["p=10/q=a", "p=2/q=b", "p=1/q=c"]
    assert lines(acid, "show partitions t where p >= 1 and q = 'c'") == ["p=1/q=c"]


@pytest.mark.parametrize(
    ("text", "code"),
    {
        "alter table t unset tblproperties ('nosuch')": 10215,
        "create table x (id int default 'abc')": 10326,
        "create table x (id string default 1)": 10326,
        "create table x (v varchar(5) default 'ab')": 10326,
        "create table x (id int default current_date)": 10326,
        "create table x (v string default current_timestamp())": 10326,
        "create table x (id int default 5L)": 10326,
        "create table x (id int default cast('5' as bigint))": 10326,
        "create table x (d decimal(4,2) default 1.25)": 10326,
        "create table x (d double default 1.5)": 10326,
        "create table x (id int default null)": 10326,
        "insert into t partition (p=null) values (1)": 10248,
        "insert into t partition (p='') values (1)": 10006,
        "create table x (id int check (id in (select 1)))": 10326,
        "alter table t add constraint c check (id in (select 1))": 10326,
        "create table x (id int check (count(id) > 1))": 10326,
        "create table x (id int check (row_number() over () > 1))": 10326,
        "alter table t add constraint c check (explode(array(id)) > 1)": 10326,
    }.items(),
)
def test_refused_with_hives_number(acid: Session, text: str, code: int) -> None:
    acid.sql("create table t (id int)")
    with pytest.raises(InvalidInputError) as caught:
        acid.sql(text)
    assert caught.value.code == code
    acid.sql("alter table t unset tblproperties if exists ('nosuch')")
    acid.sql("create table y (s string check (cast(s as varchar(2)) <> 'count(x)'))")


@pytest.mark.parametrize("key", ["array<int>", "map<int,int>", "struct<a:int>"])
def test_keys_of_maps_are_primitive(acid: Session, key: str) -> None:
    acid.sql("create table t (id int)")
    for text in (
        f"create table x (m map<{key},int>)",
        f"alter table t add columns (m map<{key},int>)",
    ):
        with pytest.raises(SqlSyntaxError, match="in primitive type specification"):
            acid.sql(text)


def test_change_column_takes_a_constraint(acid: Session) -> None:
    acid.sql("create table t (id int, v string)")
    acid.sql("alter table t change column v v string constraint nn1 not null enable novalidate")
    acid.sql("alter table t change column id id int constraint d1 default 5 enable novalidate")
    found = lines(acid, "describe formatted t")
    assert "Constraint Name:|nn1" in found
    assert "Column Name:id|Default Value:5" in found
