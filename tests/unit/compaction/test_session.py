"""Compaction as a session's user sees it, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hiveacid
from hiveacid.compacting import embeds_by_default
from hiveacid.compaction.cleaning_report import CleanedPath, Fate
from hiveacid.errors import CompactionError, InvalidInputError, NotFoundError
from hiveacid.model.compactions import CompactionRequest, CompactionState, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session, connect
from hiveacid.settings import Settings
from hiveacid.statements.values import Listing

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='0')"
T = TableName("default", "t")


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    with _session(tmp_path, "off") as session:
        yield session


def _session(path: Path, auto: str, **settings: object) -> Session:
    chosen = Settings(compactor_auto=auto, **settings)  # type: ignore[arg-type]
    url = f"sqlite:///{path / 'metastore.db'}"
    return connect(None, url, warehouse=str(path / "wh"), settings=chosen)


def _fill(acid: Session, *, deltas: int = 3) -> None:
    acid.sql(f"create table t (id int, v string) {ACID}")
    for number in range(deltas):
        acid.sql(f"insert into t values ({number}, 'a'), ({number + 100}, 'b')")
    acid.table("t").delete_arrow("id = 100")


def _rows(acid: Session) -> list[tuple[int, str]]:
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def _directories(acid: Session, *parts: str) -> list[str]:
    location = Path(acid.table("t").definition.location, *parts)
    return sorted(one.name for one in location.iterdir() if one.name[0] not in "._")


def _shown(acid: Session, text: str) -> list[dict[str, str | None]]:
    found = acid.sql(text)
    assert isinstance(found, Listing)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


# -------------------------------------------------------------------- COMPACT ... AND WAIT


def test_a_major_compaction_that_is_waited_for_makes_a_base_of_the_same_rows(acid: Session) -> None:
    _fill(acid)
    before = _rows(acid)
    (told,) = _shown(acid, "alter table t compact 'major' and wait")
    (entry,) = acid.compactions("t")
    assert (told["compactionid"], told["state"]) == (str(entry.id), "ready for cleaning")
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert f"base_0000004_v{entry.txn:07d}" in _directories(acid)
    assert _rows(acid) == before


def test_a_minor_compaction_keeps_inserts_and_deletes_apart(acid: Session) -> None:
    _fill(acid)
    before = _rows(acid)
    (entry,) = acid.table("t").compact("minor", wait=True)
    suffix = f"_v{entry.txn:07d}"
    names = [name for name in _directories(acid) if name.endswith(suffix)]
    assert names == [f"delete_delta_0000001_0000004{suffix}", f"delta_0000001_0000004{suffix}"]
    assert _rows(acid) == before


def test_the_failure_of_a_compaction_that_is_waited_for_is_raised(acid: Session) -> None:
    _fill(acid)
    before = _directories(acid)
    damaged = next(Path(acid.table("t").definition.location).glob("delta_0000002*/bucket*"))
    damaged.write_bytes(b"no ORC file")
    with pytest.raises(CompactionError, match=damaged.name):
        acid.sql("alter table t compact 'major' and wait")
    (entry,) = acid.compactions(status="failed")
    assert damaged.name in (entry.error or "")
    assert _directories(acid) == before


def test_a_compaction_with_nothing_to_do_ends_as_refused(acid: Session) -> None:
    _fill(acid, deltas=0)
    (entry,) = acid.table("t").compact(wait=True)
    assert entry.state is CompactionState.REFUSED


def test_who_waits_carries_out_a_request_of_any_pool(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t compact 'major' and wait pool 'nobody serves it'")
    assert [one.pool for one in acid.compactions(status="ready for cleaning")] == [
        "nobody serves it"
    ]


def test_who_waits_comes_after_the_one_that_is_on_its_way(acid: Session) -> None:
    _fill(acid)
    (first,) = acid.table("t").compact("minor")
    acid.sql("insert into t values (7, 'later')")
    (second,) = acid.table("t").compact("major", wait=True)
    assert second.id > first.id
    states = {one.id: one.state for one in acid.compactions("t")}
    assert states[first.id] is CompactionState.READY_FOR_CLEANING


def test_who_waits_is_content_where_nothing_is_left_to_do(acid: Session) -> None:
    _fill(acid)
    (first,) = acid.table("t").compact("major", wait=True)
    for kind in ("major", "minor"):
        assert acid.table("t").compact(kind, wait=True)[0].id == first.id
        with pytest.raises(CompactionError, match="'ready for cleaning'"):
            acid.table("t").compact(kind)


def test_who_waits_is_not_content_with_an_older_one_where_another_asks_first(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the initiator does, between the look at the queue and the request."""
    _fill(acid)
    (older,) = acid.table("t").compact("major", wait=True)
    acid.table("t").delete_arrow("id = 101")
    queue = acid.client.metastore
    ask, asked = type(queue).compact, []

    def ask_second(self: Any, request: CompactionRequest) -> Any:
        if not asked:
            asked.append(ask(self, CompactionRequest(T, None, CompactionType.MINOR)))
        return ask(self, request)

    monkeypatch.setattr(type(queue), "compact", ask_second)
    (entry,) = acid.table("t").compact("major", wait=True)
    assert entry.id > asked[0].id > older.id
    assert f"base_0000005_v{entry.txn:07d}" in _directories(acid)


def test_one_partition_is_compacted_and_the_others_stay(acid: Session) -> None:
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    for number in range(3):
        acid.sql(f"insert into t values ({number}, 'x'), ({number}, 'y')")
    y = _directories(acid, "p=y")
    acid.table("t").compact(partition={"p": "x"}, wait=True)
    assert any(name.startswith("base_") for name in _directories(acid, "p=x"))
    assert _directories(acid, "p=y") == y


# -------------------------------------------------------------------- the queue


def test_a_request_waits_for_a_service_where_nobody_compacts_here(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t compact 'minor' pool 'p' with overwrite tblproperties ('a'='b')")
    (row,) = _shown(acid, "show compactions")
    host = acid.client.transactions.host
    assert row["state"] == "initiated"
    assert (row["dbname"], row["tabname"], row["partname"]) == ("default", "t", " --- ")
    assert (row["type"], row["poolname"], row["initiatorid"]) == ("MINOR", "p", "manual")
    assert (row["initiatorhost"], row["workerid"], row["starttime"]) == (host, " --- ", " --- ")
    (entry,) = acid.compactions()
    assert dict(entry.properties) == {"a": "b"}


def test_a_second_request_for_the_same_table_is_refused(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t compact 'major'")
    with pytest.raises(
        CompactionError, match=r"default\.t is refused, details: .*'initiated'"
    ) as e:
        acid.sql("alter table t compact 'minor'")
    assert e.value.code == 10432


def test_requests_are_taken_out_of_the_queue(acid: Session) -> None:
    _fill(acid)
    (entry,) = acid.table("t").compact("major")
    found = _shown(acid, f"abort compactions {entry.id} 99")
    assert [(row["compactionid"], row["status"]) for row in found] == [
        (str(entry.id), "Success"),
        ("99", "Error"),
    ]
    assert [one.state for one in acid.compactions()] == [CompactionState.ABORTED]


def test_show_compactions_filters_and_sorts(acid: Session) -> None:
    queue = acid.client.metastore
    acid.sql("create database d")
    for table in ("default.a", "default.b", "d.c"):
        acid.sql(f"create table {table} (id int) partitioned by (p string) {ACID}")
    for name, partition, kind, pool in (
        ("default.a", "p=x", CompactionType.MAJOR, None),
        ("default.a", "p=y", CompactionType.MINOR, "fast"),
        ("default.b", "p=x", CompactionType.MINOR, None),
        ("d.c", "p=x", CompactionType.MAJOR, None),
    ):
        request = CompactionRequest(acid.table_name(name), partition, kind, pool=pool)
        assert queue.compact(request).accepted

    def ids(text: str) -> list[str | None]:
        return [row["compactionid"] for row in _shown(acid, f"show compactions {text}")]

    assert sorted(map(str, ids(""))) == ["1", "2", "3", "4"]
    assert ids("compactionid = 3") == ["3"]
    assert ids("a order by compactionid") == ["1", "2"]
    assert ids("a partition (p='y')") == ["2"]
    assert ids("database d") == ["4"]
    assert ids("type 'minor' order by compactionid desc") == ["3", "2"]
    assert ids("pool 'fast' type 'major'") == []
    assert ids("order by cc_database, tabname desc, partname limit 2") == ["4", "3"]
    assert ids("order by poolname, compactionid") == ["2", "1", "3", "4"]
    assert ids("a order by 'PARTITION' desc") == ["2", "1"]  # Hive puts CC_ before it
    assert ids('order by database, "table" desc, partition limit 2') == ["4", "3"]
    assert ids("status 'working'") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("alter table nosuch compact 'major'", 10001),
        ("alter table plain compact 'major'", 10286),
        ("alter table t compact 'medium'", 10282),
        ("alter table t partition (p='nosuch') compact 'major'", 10006),
        ("alter table two partition (p='x') compact 'major'", 10284),
        ("alter table t partition (nosuch='x') compact 'major'", 10098),
        ("alter table of_hive_3 compact 'major'", None),
        ("alter table bucketed compact 'rebalance'", None),
        ("alter table appended compact 'rebalance'", None),
        ("alter table t partition (p='x') compact 'major' clustered into 2 buckets", None),
        ("alter table t partition (p='x') compact 'minor' order by id", None),
        ("alter table t partition (p='x') compact 'rebalance' clustered into 5000 buckets", None),
        ("alter table u compact 'rebalance' order by id, nosuch", 10002),
        ("show compactions nosuch", 10001),
        ("show compactions type 'medium'", 10282),
        ("show compactions status 'lost'", None),
        ("show compactions order by nosuch", None),
    ],
)
def test_wrong_statements_leave_the_queue_empty(acid: Session, text: str, code: int | None) -> None:
    acid.sql("create table plain (id int)")
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    acid.sql("insert into t values (1, 'x')")
    acid.sql(f"create table u (id int) {ACID}")
    acid.sql(f"create table two (id int) partitioned by (p string, q int) {ACID}")
    acid.sql("insert into two values (1, 'x', 1), (1, 'x', 2)")
    acid.sql(f"create table bucketed (id int) clustered by (id) into 2 buckets {ACID}")
    names = "'transactional'='true', 'hiveacid.file.names'='hive3'"
    acid.sql(f"create table of_hive_3 (id int) stored as orc tblproperties ({names})")
    only = "'transactional'='true', 'transactional_properties'='insert_only'"
    acid.sql(f"create table appended (id int) stored as orc tblproperties ({only})")
    with pytest.raises((InvalidInputError, NotFoundError)) as caught:
        acid.sql(text)
    assert caught.value.code == code
    assert acid.compactions() == ()


def test_a_wrong_type_of_compaction_is_named_beside_all_that_there_are(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(InvalidInputError, match=r"'medium'.* 'major', 'minor' and 'rebalance'"):
        acid.sql("alter table t compact 'medium'")


def test_partition_values_of_python_count_as_their_text(acid: Session) -> None:
    acid.sql(f"create table t (id int) partitioned by (year int, ok boolean) {ACID}")
    acid.sql("insert into t values (1, 1995, true), (2, 1996, true)")
    acid.sql("insert into t values (3, 1995, true)")
    (entry,) = acid.table("t").compact("major", partition={"Year": 1995, "ok": True}, wait=True)
    assert entry.partition == "year=1995/ok=true"
    assert acid.compactions("t", partition={"year": 1995}) == (entry,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.compact(partition="p=x"), "partition is a mapping, not 'p=x'"),
        (lambda t: t.compact(None), "kind is a text, not None"),
        (lambda t: t.session.compactions(limit=-1), "must not be negative"),
        (lambda t: t.session.compactions(partition={"p": "x"}), "none is named"),
        (lambda t: t.compact("rebalance", buckets="x"), "buckets is a whole number, not 'x'"),
        (lambda t: t.compact("rebalance", buckets=True), "buckets is a whole number"),
        (lambda t: t.compact("rebalance", order_by=["id"]), "order_by is a text"),
        (lambda t: t.compact(pool=5), "pool is a text, not 5"),
        (lambda t: t.compact(properties="x"), "properties is a mapping"),
        (lambda t: t.compact(properties={"compactor.x": 1}), "properties is a mapping"),
        (lambda t: t.session.compactions(limit="x"), "limit is a whole number"),
        (lambda t: t.session.compactions(status=5), "status is a text"),
        (lambda t: t.session.compactions(type=5), "type is a text"),
        (lambda t: t.session.clean(5), "table is a text, not 5"),
    ],
)
def test_wrong_arguments_are_named(
    acid: Session, call: Callable[[Any], object], message: str
) -> None:
    _fill(acid)
    with pytest.raises(InvalidInputError, match=message):
        call(acid.table("t"))


def test_compact_is_refused_in_a_transaction_and_show_is_not(acid: Session) -> None:
    _fill(acid)
    with acid.transaction() as txn:
        with pytest.raises(InvalidInputError, match="COMPACT is not allowed in a transaction"):
            txn.sql("alter table t compact 'major'")
        with pytest.raises(InvalidInputError, match="COMPACT is not allowed in a transaction"):
            txn.table("t").compact("major")
        txn.sql("show compactions")
        assert (txn.table("t").detail().deltas, len(txn.table("t").why_compact())) == (3, 1)
    assert acid.compactions() == ()


# -------------------------------------------------------------------- thresholds, cleaning


@pytest.fixture
def partitioned(acid: Session) -> Session:
    """Partitions with two deltas (x, y), with one (z), with none any more (e)."""
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    for number in range(2):
        acid.sql(f"insert into t values ({number}, 'x'), ({number}, 'y')")
    acid.sql("insert into t values (1, 'z')")
    acid.sql("alter table t add partition (p='e')")
    return acid


def test_a_whole_table_is_compacted_where_there_is_something_to_do(partitioned: Session) -> None:
    done = partitioned.table("t").compact("major", wait=True)
    assert [(one.partition, one.type) for one in done] == [
        ("p=x", CompactionType.MAJOR),
        ("p=y", CompactionType.MAJOR),
    ]
    for name in ("p=x", "p=y"):
        assert any(one.startswith("base_") for one in _directories(partitioned, name))
    assert _directories(partitioned, "p=z") == ["delta_0000003_0000003_0000"]
    assert partitioned.table("t").compact("major", wait=True) == ()
    assert len(partitioned.compactions("t")) == 2


def test_a_whole_table_is_asked_for_in_its_pool_beside_what_is_on_its_way(
    partitioned: Session,
) -> None:
    (first,) = partitioned.table("t").compact("major", partition={"p": "y"})
    partitioned.sql("alter table t compact 'minor' pool 'night'")
    entries = {one.partition: one for one in partitioned.compactions("t")}
    assert set(entries) == {"p=x", "p=y"}
    assert (entries["p=x"].pool, entries["p=x"].type) == ("night", CompactionType.MINOR)
    assert entries["p=y"].id == first.id
    partitioned.sql("alter table t compact 'minor' and wait pool 'night'")
    states = {one.partition: one.state for one in partitioned.compactions("t")}
    assert states == dict.fromkeys(("p=x", "p=y"), CompactionState.READY_FOR_CLEANING)


def test_why_says_which_threshold_is_met_or_missed_and_asks_for_nothing(acid: Session) -> None:
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    for number in range(11):
        acid.sql(f"insert into t values ({number}, 'x')")
    acid.sql("insert into t values (1, 'y')")
    x, y = acid.table("t").why_compact()
    assert (x.partition, x.decision.type) == ("p=x", CompactionType.MAJOR)
    assert x.decision.reason == "11 deltas, more than 10, and no base"
    assert (y.partition, y.decision.type) == ("p=y", None)
    assert "1 delta, not more than 10" in y.decision.reason
    assert acid.compactions() == ()


def _paths(found: tuple[CleanedPath, ...], fate: Fate) -> dict[str, str]:
    return {one.path.rpartition("/")[2]: one.reason for one in found if one.fate is fate}


def test_clean_tells_what_would_go_and_why_the_rest_stays_and_then_does_it(acid: Session) -> None:
    _fill(acid)
    (entry,) = acid.table("t").compact("major", wait=True)
    base = f"base_0000004_v{entry.txn:07d}"
    old = set(_directories(acid)) - {base}
    threading.Event().wait(1.1)  # a reader that began as it committed may not be seen yet
    told = acid.table("t").clean(dry_run=True)
    assert set(_paths(told, Fate.REMOVABLE)) == old
    assert _paths(told, Fate.KEPT) == {base: "read by whoever comes now"}
    assert set(_directories(acid)) == old | {base}
    assert set(_paths(acid.clean("t"), Fate.REMOVED)) == old
    assert _directories(acid) == [base]


def test_clean_names_the_reader_that_keeps_what_was_replaced(acid: Session) -> None:
    _fill(acid)
    with acid.transaction() as txn:
        reader = hiveacid.read_arrow(txn.table("t"))
        acid.table("t").compact("major", wait=True)
        threading.Event().wait(1.1)
        kept = _paths(acid.clean("t", dry_run=True), Fate.KEPT)
        why = kept["delta_0000001_0000001_0000"]
        assert f"may still be needed by transaction {txn.id} of " in why
        assert acid.clean("t") == ()
        assert len(reader.read_all()) == 5


def test_clean_keeps_what_the_retention_says(acid: Session) -> None:
    _fill(acid)
    acid.sql("alter table t set tblproperties ('hiveacid.retention'='7d')")
    acid.table("t").compact("major", wait=True)
    why = _paths(acid.clean("t", dry_run=True), Fate.KEPT)["delta_0000001_0000001_0000"]
    assert why.startswith("replaced, and kept by the retention until 20")
    assert acid.clean() == ()


@pytest.mark.parametrize(
    ("url", "embedded"),
    [("sqlite:////wh/m.db", True), ("postgresql+psycopg://u:***@h/d", False)],
)
def test_sessions_compact_by_themselves_on_sqlite_alone(url: str, embedded: bool) -> None:
    assert embeds_by_default(url) is embedded


# -------------------------------------------------------------------- in the background


def _until(what: object, *, timeout_s: float = 300.0) -> None:
    """Wait until a condition holds."""
    waited, pause = 0.0, threading.Event()
    while not what():  # type: ignore[operator]
        assert waited < timeout_s, "took too long"
        pause.wait(0.05)
        waited += 0.05


def test_an_embedded_compactor_does_what_the_session_asks_for_and_cleans(tmp_path: Path) -> None:
    with _session(tmp_path, "embedded", compactor_cleaner_interval_s=0.1) as acid:
        _fill(acid)
        before = _rows(acid)
        (entry,) = acid.table("t").compact("major", pool="mine")
        assert entry.pool == "mine"  # it may be done by now
        _until(lambda: acid.compactions(status="succeeded"))
        (done,) = acid.compactions("t")
        assert _directories(acid) == [f"base_0000004_v{done.txn:07d}"]
        assert _rows(acid) == before
