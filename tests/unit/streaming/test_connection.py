"""A stream's rows: who sees them and when, what ends it, what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import (
    AcidError,
    ConflictError,
    ConversionError,
    InvalidInputError,
    LockError,
    NotFoundError,
    StorageError,
    TransactionError,
)
from hiveacid.model.tables import TableKind, TableName, TxnId
from hiveacid.session import Session
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.flushed_file import FlushedFile
from hiveacid.streaming import (
    DelimitedWriter,
    JsonWriter,
    RegexWriter,
    StreamingConnection,
    StreamState,
)

pytestmark = pytest.mark.slow
ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
)
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=OFF) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        session.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
        session.sql(f"create table b (id int) clustered by (id) into 4 buckets {ACID}")
        session.sql(f"create table io (id int, v string) partitioned by (k int) {INSERT_ONLY}")
        yield session


def ids(acid: Session, table: str) -> list[int]:
    rows = read_arrow(acid.table(table), columns=["id"]).read_all()
    return sorted(rows["id"].to_pylist())


def files(tmp_path: Path, table: str) -> list[str]:
    root = tmp_path / "wh" / table
    return sorted(str(one.relative_to(root)) for one in root.rglob("bucket_*"))


def test_what_is_written_is_seen_with_the_commit_alone(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by who reads between the bytes of a file and the length that makes them count."""
    with acid.stream("p", transactions_per_batch=3) as stream:
        with stream.transaction():
            stream.write({"id": 1, "k": 1})
        append = FlushedFile._append_length
        seen: list[list[int]] = []

        def read_before_and_after(file: FlushedFile) -> None:
            seen.append(ids(acid, "p"))
            append(file)
            seen.append(ids(acid, "p"))

        monkeypatch.setattr(FlushedFile, "_append_length", read_before_and_after)
        with stream.transaction():
            stream.write([{"id": 2, "k": 1}, {"id": 3, "k": 2}])
        assert seen == [[1]] * 6  # two files are flushed, one of them is new
    assert ids(acid, "p") == [1, 2, 3]


def test_each_commit_is_seen_while_the_file_is_open(acid: Session, tmp_path: Path) -> None:
    url = acid.client.metastore.url
    with acid.stream("t", transactions_per_batch=3) as stream:
        for n in range(5):
            with stream.transaction():
                stream.write({"id": n, "v": "x"})
                stream.write((n + 100, None))
            with hiveacid.connect(None, url) as other:
                expected = sorted([*range(n + 1), *range(100, 101 + n)])
                assert ids(other, "t") == expected
        assert (stream.state, stream.remaining_transactions) == (StreamState.COMMITTED, 1)
        assert "delta_0000004_0000006/bucket_00000_flush_length" in files(tmp_path, "t")
    assert files(tmp_path, "t") == [
        "delta_0000001_0000003/bucket_00000",
        "delta_0000004_0000006/bucket_00000",
    ]
    assert stream.statistics.rows == 10 and stream.statistics.committed == 5
    assert not [row for row in acid.sql("show transactions").rows if row[1] == "OPEN"]


def test_rows_of_aborted_transactions_are_seen_by_nobody(acid: Session) -> None:
    with acid.stream("t", transactions_per_batch=4) as stream:
        for n in range(8):
            stream.begin()
            stream.write({"id": n})
            stream.commit() if n % 2 else stream.abort()
        with pytest.raises(ZeroDivisionError), stream.transaction():
            stream.write({"id": 99})
            raise ZeroDivisionError
    assert ids(acid, "t") == [1, 3, 5, 7]
    assert stream.statistics.aborted == 5


def test_partitions_come_from_the_rows_or_are_given(acid: Session) -> None:
    with acid.stream("p") as stream, stream.transaction():
        stream.write([{"id": 1, "k": 7}, {"id": 2, "k": None}])
    with acid.stream("p", partition={"k": 8}) as stream, stream.transaction():
        stream.write({"id": 3})
    rows = read_arrow(acid.table("p"), columns=["id", "k"]).read_all().to_pylist()
    assert sorted((row["id"], row["k"]) for row in rows) == [(1, 7), (2, None), (3, 8)]
    assert [row[0] for row in acid.sql("show partitions p").rows] == [
        "k=7",
        "k=8",
        "k=__HIVE_DEFAULT_PARTITION__",
    ]


def test_some_partition_columns_are_given_others_are_in_the_rows(acid: Session) -> None:
    acid.sql(f"create table q (id int) partitioned by (k int, l string) {ACID}")
    with acid.stream("q", partition={"K": 1}) as stream, stream.transaction():
        stream.write([{"id": 1, "l": "x"}, (2, "y/z")])
    with acid.stream("q", partition={"l": "z"}) as stream, stream.transaction():
        stream.write([{"id": 3, "k": None}])
    rows = read_arrow(acid.table("q")).read_all().to_pylist()
    found = sorted((row["id"], row["k"], row["l"]) for row in rows)
    assert found == [(1, 1, "x"), (2, 1, "y/z"), (3, None, "z")]


def test_rows_go_to_their_buckets(acid: Session, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(1000), pa.int32())})
    with acid.stream("b") as stream:
        for _ in range(2):
            with stream.transaction():
                stream.write(rows)
    assert ids(acid, "b") == sorted([*range(1000)] * 2)
    assert len(files(tmp_path, "b")) == 4
    acid.table("b").compact("major")
    assert ids(acid, "b") == sorted([*range(1000)] * 2)


@pytest.mark.parametrize("table", ["p", "io"])
def test_beyond_the_open_files_a_transaction_has_its_own(acid: Session, table: str) -> None:
    with acid.stream(table, open_files_max=2, transactions_per_batch=3) as stream:
        for n in range(4):
            with stream.transaction():
                stream.write([{"id": 10 * n + k, "k": k} for k in range(5)])
                stream.write([{"id": 10 * n + k + 5, "k": k} for k in range(5)])
        stream.begin()
        stream.write([{"id": 1000 + k, "k": k} for k in range(5)])
        stream.abort()
    assert ids(acid, table) == list(range(40))


def test_where_open_files_are_not_shown_each_transaction_has_its_own(
    acid: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileSystem, "shows_flushed", False)
    with acid.stream("t", transactions_per_batch=3) as stream:
        for n in range(2):
            with stream.transaction():
                stream.write({"id": n})
            assert ids(acid, "t") == [*range(n + 1)]
    assert files(tmp_path, "t") == [
        f"delta_000000{n}_000000{n}_0001/bucket_00000_{acid.table('t').definition.id}"
        for n in (1, 2)
    ]


def test_transactions_without_rows_leave_nothing(acid: Session, tmp_path: Path) -> None:
    with acid.stream("t", transactions_per_batch=2) as stream:
        for rows in ([], [], pa.table({"id": pa.array([], pa.int32())})):
            with stream.transaction():
                stream.write(rows)
        stream.begin()
        stream.write({"id": 1})
        stream.abort()
        assert (stream.statistics.committed, stream.statistics.rows) == (3, 0)
    assert (ids(acid, "t"), files(tmp_path, "t")) == ([], [])


TEXTS = [
    (DelimitedWriter(), "1,a\n2,\\N\n", [(1, "a"), (2, None)]),
    (DelimitedWriter(delimiter="|", escape="\\"), b"1|a\\|b\n", [(1, "a|b")]),
    (DelimitedWriter(), ["1,ä", "2,"], [(1, "ä"), (2, "")]),
    (JsonWriter(), '{"ID": 1, "v": "a"}\n{"id": 2}', [(1, "a"), (2, None)]),
    (RegexWriter(r"(\d+)-(\w*)"), "1-a\n2-", [(1, "a"), (2, "")]),
]


@pytest.mark.parametrize(("writer", "text", "expected"), TEXTS)
def test_text_becomes_rows(acid: Session, writer: Any, text: Any, expected: list[Any]) -> None:
    with acid.stream("t", record_writer=writer) as stream, stream.transaction():
        stream.write(text)
    rows = read_arrow(acid.table("t")).read_all().to_pylist()
    assert [(row["id"], row["v"]) for row in rows] == expected


UNFIT = [
    (None, [{"id": 1}, {"id": "x"}, {"id": 3}], 1, "id"),
    (None, [{"id": 1}, (2,)], 1, None),
    (None, [{"id": 1}, {"id": 2, "w": 3}], 1, "w"),
    (None, [{"id": 1}, {"id": 2**40}], 1, "id"),
    (DelimitedWriter(), "1,a\n2\n3,c", 1, None),
    (JsonWriter(), '{"id": 1}\n{"id"\n', 1, None),
    (JsonWriter(), '{"id": 1}\n[2]\n', 1, None),
    (RegexWriter(r"(\d+)-(\w*)"), "1-a\nno", 1, None),
]


@pytest.mark.parametrize(("writer", "data", "number", "column"), UNFIT)
def test_a_record_that_does_not_fit_is_named(
    acid: Session, writer: Any, data: Any, number: int, column: str | None
) -> None:
    with acid.stream("t", record_writer=writer) as stream:
        with pytest.raises(ConversionError) as error, stream.transaction():
            stream.write(data)
        assert error.value.context["record"] == number
        assert error.value.context.get("column") == column
        assert stream.state is StreamState.ABORTED
    assert ids(acid, "t") == []


@pytest.mark.parametrize(("writer", "data", "number", "column"), UNFIT)
def test_records_that_do_not_fit_can_go_to_a_table(
    acid: Session, writer: Any, data: Any, number: int, column: str | None
) -> None:
    with acid.stream("t", record_writer=writer, strict=False) as stream:
        with stream.transaction():
            stream.write(data)
        assert stream.statistics.rejected == 1
    assert 1 in ids(acid, "t") and 2 not in ids(acid, "t")
    rejected = read_arrow(acid.table("t_rejected")).read_all().to_pylist()
    assert len(rejected) == 1 and rejected[0]["reason"] and rejected[0]["record"]


def drop(acid: Session) -> None:
    acid.sql("drop table t")


def rename(acid: Session) -> None:
    acid.sql("alter table t rename to t9")


def recreate(acid: Session) -> None:
    acid.sql("drop table t")
    acid.sql(f"create table t (id int, v string) {ACID}")


def add_column(acid: Session) -> None:
    acid.sql("alter table t add columns (w int)")


def overwrite(acid: Session) -> None:
    acid.sql("insert overwrite table t values (77, 'o')")


def truncate(acid: Session) -> None:
    acid.sql("truncate table t")


CHANGES: list[tuple[Callable[[Session], None], type[AcidError], str, list[int]]] = [
    (drop, NotFoundError, "", []),
    (rename, NotFoundError, "t9", [1]),
    (recreate, ConflictError, "t", [3]),
    (add_column, ConflictError, "t", [1, 3]),
    (overwrite, ConflictError, "t", [3, 77]),
    (truncate, ConflictError, "t", [3]),
]


@pytest.mark.parametrize(("change", "error", "table", "left"), CHANGES)
def test_a_table_changed_between_two_transactions_ends_the_batch(
    acid: Session,
    tmp_path: Path,
    change: Callable[[Session], None],
    error: type[AcidError],
    table: str,
    left: list[int],
) -> None:
    with acid.stream("t", transactions_per_batch=5) as stream:
        with stream.transaction():
            stream.write({"id": 1})
        change(acid)
        with pytest.raises(error):
            stream.begin()
        assert stream.state is StreamState.COMMITTED
        if error is ConflictError:
            with stream.transaction():
                stream.write({"id": 3})
        else:
            with pytest.raises(NotFoundError):
                stream.begin()
            assert not (tmp_path / "wh" / "t").exists()
    if table:
        assert ids(acid, table) == left
    assert acid.sql("show locks").rows == ()


IN_THE_WAY = ["drop table t", "alter table t rename to t9", "truncate table t"]


@pytest.mark.parametrize("statement", IN_THE_WAY)
def test_what_would_take_the_table_waits_for_an_open_transaction(
    acid: Session, statement: str
) -> None:
    with acid.stream("t") as stream, stream.transaction():
        stream.write({"id": 1})
        soon = {**OFF, "hiveacid.lock.timeout_s": "0.01"}
        with hiveacid.connect(None, acid.client.metastore.url, settings=soon) as other:
            with pytest.raises(LockError) as error:
                other.sql(statement)
            assert error.value.context["holder"] == stream.transaction_id
    assert ids(acid, "t") == [1]


def test_a_transaction_that_somebody_aborted(acid: Session) -> None:
    with acid.stream("t", transactions_per_batch=5) as stream:
        stream.begin()
        stream.write({"id": 1})
        acid.sql(f"abort transactions {stream.transaction_id}")
        with pytest.raises(TransactionError):
            stream.commit()
        assert stream.state is StreamState.ABORTED
        with stream.transaction():
            stream.write({"id": 2})
        later = TxnId((stream.transaction_id or 0) + 1)
        acid.sql(f"abort transactions {later}")
        with pytest.raises(TransactionError):
            stream.begin()
        with stream.transaction():
            stream.write({"id": 3})
    assert ids(acid, "t") == [2, 3]


WRONG_ORDER: list[tuple[str, Callable[[StreamingConnection], object]]] = [
    ("write", lambda stream: stream.write({"id": 1})),
    ("commit", lambda stream: stream.commit()),
    ("abort", lambda stream: stream.abort()),
]


@pytest.mark.parametrize(("name", "call"), WRONG_ORDER)
def test_without_a_transaction(
    acid: Session, name: str, call: Callable[[StreamingConnection], object]
) -> None:
    with acid.stream("t") as stream:
        with pytest.raises(TransactionError, match="no open transaction"):
            call(stream)
        with stream.transaction():
            stream.write({"id": 1})
        with pytest.raises(TransactionError):
            call(stream)
    with pytest.raises(TransactionError, match="closed"):
        call(stream)
    with pytest.raises(TransactionError, match="closed"):
        stream.begin()
    stream.close()


def test_two_transactions_at_once_need_two_streams(acid: Session) -> None:
    with acid.stream("t") as one, acid.stream("t") as two:
        one.begin()
        with pytest.raises(TransactionError):
            one.begin()
        two.begin()
        one.write({"id": 1})
        two.write({"id": 2})
        two.commit()
        assert ids(acid, "t") == [2]
        one.commit()
    assert ids(acid, "t") == [1, 2]


NOT_THESE = [
    ("create table n (id int) stored as orc", "not transactional"),
    (f"create table n (id int check (id > 0) enable) {ACID}", "CHECK"),
]


@pytest.mark.parametrize(("definition", "message"), NOT_THESE)
def test_tables_that_take_no_stream(acid: Session, definition: str, message: str) -> None:
    acid.sql(definition)
    with pytest.raises(InvalidInputError, match=message):
        acid.stream("n")


def test_a_view_takes_no_stream(acid: Session) -> None:
    store = acid.client.metastore
    like = store.get_table(TableName("default", "t"))
    store.create_table(replace(like, name=TableName("default", "n"), kind=TableKind.VIEW))
    with pytest.raises(InvalidInputError, match="a view"):
        acid.stream("n")


ARGUMENTS: list[tuple[dict[str, Any], type[AcidError]]] = [
    ({"table": "none"}, NotFoundError),
    ({"table": "p", "partition": {"none": 1}}, InvalidInputError),
    ({"table": "p", "partition": {"k": "x"}}, InvalidInputError),
    ({"table": "t", "transactions_per_batch": 0}, InvalidInputError),
    ({"table": "t", "open_files_max": 0}, InvalidInputError),
    ({"table": None}, InvalidInputError),
    ({"table": "t", "partition": "k=1"}, InvalidInputError),
    ({"table": "t", "strict": "no"}, InvalidInputError),
    ({"table": "t", "record_writer": RegexWriter("(a)")}, InvalidInputError),
    ({"table": "t", "record_writer": DelimitedWriter}, InvalidInputError),
]


@pytest.mark.parametrize(("arguments", "error"), ARGUMENTS)
def test_arguments_that_cannot_be(
    acid: Session, arguments: dict[str, Any], error: type[AcidError]
) -> None:
    with pytest.raises(error):
        acid.stream(**arguments)


@pytest.mark.parametrize("per_batch", [5, 1])
@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (OSError(28, "No space left on device"), StorageError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_half_a_write_keeps_what_was_committed(
    acid: Session,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    seen: type[BaseException],
    per_batch: int,
) -> None:
    """Of a file that goes on, or the first bytes of a new one."""

    def half(file: FlushedFile, data: bytes) -> None:
        file._out.write(bytes(data)[: len(data) // 2])
        raise error

    with acid.stream("t", transactions_per_batch=per_batch) as stream:
        with stream.transaction():
            stream.write({"id": 1})
        with monkeypatch.context() as patch:
            patch.setattr(FlushedFile, "_send", half)
            with pytest.raises(seen), stream.transaction():
                stream.write({"id": 2})
        assert ids(acid, "t") == [1]
        with stream.transaction():
            stream.write({"id": 3})
    assert ids(acid, "t") == [1, 3]
    acid.table("t").compact("major")
    assert ids(acid, "t") == [1, 3]


def test_a_batch_that_was_left_is_compacted_up_to_its_last_flush(
    acid: Session, tmp_path: Path
) -> None:
    stream = acid.stream("t", transactions_per_batch=4)
    for n in range(2):
        with stream.transaction():
            stream.write({"id": n})
    stream.begin()
    stream.write({"id": 9})
    open_ids = [row[0] for row in acid.sql("show transactions").rows]
    acid.sql("abort transactions " + " ".join(open_ids))
    assert ids(acid, "t") == [0, 1]
    acid.table("t").compact("major")
    assert ids(acid, "t") == [0, 1]
