"""How a table is, as ``detail()`` and DESCRIBE DETAIL say it; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.running import run
from tests.unit.compaction.quick import ACID, session_of

import hiveacid
from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.model.compactions import CompactionType
from hiveacid.session import Session
from hiveacid.statements.values import Listing

pytestmark = pytest.mark.slow

KEPT = "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='2d')"


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    with session_of(_url(tmp_path), tmp_path) as session:
        yield session


def _url(path: Path) -> str:
    return f"sqlite:///{path / 'metastore.db'}"


def _fill(acid: Session, deltas: int = 3) -> None:
    acid.sql(f"create table t (id int, v string) {KEPT}")
    for number in range(deltas):
        acid.sql(f"insert into t values ({number}, 'a'), ({number + 100}, 'b')")
    acid.table("t").delete_arrow("id = 100")


def test_detail_counts_what_readers_read_and_what_was_deleted(acid: Session) -> None:
    _fill(acid)
    found = acid.table("t").detail()
    root = Path(found.location)
    sizes = [one.stat().st_size for one in root.rglob("bucket_*")]
    assert (found.rows, found.deleted_rows) == (5, 1)
    assert (found.files, found.size_bytes) == (len(sizes), sum(sizes))
    assert (found.deltas, found.delete_deltas, found.small_files) == (3, 1, 2)
    assert (found.kept_files, found.kept_bytes, found.holders) == (0, 0, ())
    assert found.last_compaction_ms is None
    newest = max(one.stat().st_mtime_ns for one in root.rglob("*") if one.is_file())
    (last,) = acid.table("t").history(limit=1)
    assert found.last_write_ms == last.committed_ms >= newest // 1_000_000


def test_the_last_write_is_known_whatever_is_left_of_it(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    assert acid.table("t").detail().last_write_ms is None
    acid.sql("insert into t values (1)")
    written_ms = acid.table("t").history()[0].committed_ms
    acid.table("t").compact("major", wait=True)
    acid.table("t").clean()
    assert acid.table("t").detail().last_write_ms == written_ms
    acid.table("t").purge(where="id in (1)")
    assert acid.table("t").history()[0].facts.kind == "PURGE"
    assert (acid.table("t").detail().last_write_ms or 0) > written_ms
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("insert into plain values (1)")
    assert acid.table("plain").detail().last_write_ms is not None


def test_what_is_due_is_the_verdict_that_why_compact_gives(acid: Session) -> None:
    _fill(acid, deltas=11)
    found = acid.table("t").detail()
    assert found.verdicts == acid.table("t").why_compact()
    assert found.verdicts[0].decision.type is CompactionType.MAJOR
    assert found.why_none is None
    (due,) = found.findings
    assert (due.kind, due.evidence) == ("compaction", found.verdicts[0].decision.reason)
    assert due.command == "hiveacid compact default.t --wait"


def test_what_a_compaction_replaced_is_kept_by_the_retention_and_by_readers(acid: Session) -> None:
    _fill(acid)
    acid.sql("set hiveacid.reads.lease = always")
    before = acid.table("t").detail()
    data = hiveacid.read_arrow(acid.table("t"))
    (entry,) = acid.table("t").compact(wait=True)
    found = acid.table("t").detail()
    assert (found.kept_files, found.kept_bytes) >= (before.files, before.size_bytes)
    assert found.last_compaction_ms == entry.committed_ms
    retention, reader = found.holders
    assert retention.until_ms == (entry.committed_ms or 0) + 2 * 86_400_000
    assert (reader.kind, reader.since_ms is not None) == ("reader", True)
    acid.sql(reader.mend)
    assert [one.kind for one in acid.table("t").detail().holders] == ["retention"]
    del data


def test_no_cleanup_is_named_with_what_ends_it(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t set tblproperties ('no_cleanup' = 'true', 'hiveacid.retention' = '0')")
    acid.table("t").compact(wait=True)
    (holder,) = acid.table("t").detail().holders
    acid.sql(holder.mend)
    assert acid.table("t").detail().holders == ()


def test_a_tag_is_named_as_long_as_it_keeps_what_was_replaced(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t set tblproperties ('hiveacid.retention' = '0')")
    acid.table("t").tag("close-2026")
    acid.table("t").delete_arrow("id = 1")
    acid.table("t").compact(wait=True)
    (holder,) = acid.table("t").detail().holders
    assert (holder.kind, holder.what[:14]) == ("tag", "tag close-2026")
    acid.sql(holder.mend)
    assert acid.table("t").detail().holders == ()


def test_rows_that_no_statistics_tell_are_none_and_named(acid: Session) -> None:
    _fill(acid)
    given = acid.detach("t")
    acid.attach(
        given.location,
        name="t",
        valid_write_ids=given.valid_write_ids,
        valid_txns=given.valid_txns,
        properties={"hiveacid.retention": "2d"},
    )
    found = acid.table("t").detail()
    assert found.rows is None
    (finding,) = found.findings
    assert finding.command == "ANALYZE TABLE default.t COMPUTE STATISTICS"


def test_partitions_are_told_together(acid: Session) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    for number in range(11):
        acid.sql(f"insert into p values ({number}, 'a'), ({number}, 'b'), ({number}, 'c')")
    acid.sql("alter table p partition (k = 'c') compact 'major' and wait")
    found = acid.table("p").detail()
    assert (found.partitions, found.partition_columns, found.rows) == (3, ("k",), 33)
    assert [one.partition for one in found.verdicts] == ["k=a", "k=b"]
    (due,) = found.findings
    assert due.evidence.endswith("in k=a, and in 1 more")
    acid.sql(due.command + " and wait")
    assert acid.table("p").detail().findings == ()


def test_a_failed_compaction_is_named_with_its_reason(acid: Session) -> None:
    _fill(acid)
    damaged = next(Path(acid.table("t").definition.location).glob("delta_0000002*/bucket*"))
    good = damaged.read_bytes()
    damaged.write_bytes(b"no ORC file")
    acid.table("t").compact()
    acid.compacting.compactor().worker().run_next()
    found = [one for one in acid.table("t").detail().findings if one.kind == "failed compaction"]
    assert damaged.name in found[0].evidence
    assert found[0].command == "hiveacid compact default.t --wait"
    damaged.write_bytes(good)


def test_skew_is_the_largest_bucket_by_the_average(acid: Session) -> None:
    acid.sql(f"create table b (id int) clustered by (id) into 4 buckets {ACID}")
    acid.sql("insert into b values (4), (8), (12)")
    found = acid.table("b").detail()
    assert found.buckets == 4
    assert found.bucket_skew is not None
    assert 1 < found.bucket_skew <= 4


def test_sql_answers_with_one_row_and_deltas_names(acid: Session) -> None:
    _fill(acid)
    found = acid.sql("describe detail t")
    assert isinstance(found, Listing)
    row = dict(zip(found.columns, *found.rows, strict=True))
    detail = acid.table("t").detail()
    assert (row["name"], row["format"]) == ("default.t", "orc")
    assert (row["numFiles"], row["sizeInBytes"]) == (str(detail.files), str(detail.size_bytes))
    assert row["compaction"] == f"none: {detail.why_none}"


def test_a_table_without_transactions_has_figures_only(acid: Session) -> None:
    acid.sql("create table plain (id int) stored as orc")
    found = acid.table("plain").detail()
    assert (found.files, found.rows, found.findings) == (0, None, ())
    with pytest.raises(NotFoundError):
        acid.sql("describe detail nothing")


def test_the_command_line_says_it_in_words_and_as_json(acid: Session, tmp_path: Path) -> None:
    _fill(acid)
    acid.table("t").compact(wait=True)
    url = _url(tmp_path)
    told = run("describe", "t", "--metastore", url)
    assert told.returncode == 0, told.stderr
    assert "rows:               5" in told.stdout
    assert "kept by:            the table's retention until 2" in told.stdout
    facts = json.loads(run("describe", "t", "--metastore", url, "--json").stdout)
    assert (facts["name"], facts["rows"]) == ("default.t", 5)
    assert facts["holders"][0]["kind"] == "retention"
    missing = run("describe", "nothing", "--metastore", url)
    assert missing.returncode == 1


def test_a_view_has_no_detail(acid: Session) -> None:
    from hiveacid.model.tables import Table, TableKind, TableName

    name = TableName("default", "v")
    location = acid.client.metastore.get_database("default").location + "/v"
    view = Table(name, (), location=location, kind=TableKind.VIEW, view_text="select 1")
    acid.client.metastore.create_table(view)
    with pytest.raises(InvalidInputError, match="is a view"):
        acid.table("v").detail()
