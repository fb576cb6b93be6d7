"""Partitions that are dropped or renamed under a stream, between two transactions of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import ConflictError
from hiveacid.session import Session

pytestmark = pytest.mark.slow
ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url, off = f"sqlite:///{tmp_path}/m.db", {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=off) as session:
        session.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
        yield session


def ids(acid: Session, table: str) -> list[int]:
    rows = read_arrow(acid.table(table), columns=["id"]).read_all()
    return sorted(rows["id"].to_pylist())


@pytest.mark.parametrize("change", ["drop {}", "{} rename to partition (k=3)"])
def test_a_batch_ends_well_where_the_partition_of_a_file_went(acid: Session, change: str) -> None:
    with acid.stream("p", transactions_per_batch=2) as stream:
        with stream.transaction():
            stream.write([(1, "a", 1), (2, "a", 2)])
        acid.sql(f"alter table p {change.format('partition (k=1)')}")
        with stream.transaction():
            stream.write([(3, "b", 2)])
    assert ids(acid, "p") == ([2, 3] if "drop" in change else [1, 2, 3])


def test_a_dropped_partition_is_made_again(acid: Session) -> None:
    with acid.stream("p", transactions_per_batch=5) as stream:
        with stream.transaction():
            stream.write({"id": 1, "k": 1})
        acid.sql("alter table p drop partition (k=1)")
        with pytest.raises(ConflictError), stream.transaction():
            stream.write({"id": 2, "k": 1})
        with stream.transaction():
            stream.write({"id": 3, "k": 1})
    assert ids(acid, "p") == [3]


def test_rows_of_a_renamed_partition_stay_where_the_batch_writes_to_its_new_name(
    acid: Session,
) -> None:
    with acid.stream("p", transactions_per_batch=5) as stream:
        with stream.transaction():
            stream.write({"id": 1, "k": 1})
        acid.sql("alter table p partition (k=1) rename to partition (k=3)")
        with pytest.raises(ConflictError, match="its partition was renamed"), stream.transaction():
            stream.write({"id": 2, "k": 3})
        assert ids(acid, "p") == [1]
        with stream.transaction():
            stream.write({"id": 3, "k": 3})
    assert ids(acid, "p") == [1, 3]


@pytest.mark.parametrize("open_files_max", [1, 3, 4, 100])
def test_buckets_beyond_the_limit_of_open_files_do_not_hide_one_another(
    acid: Session, open_files_max: int
) -> None:
    acid.sql(
        f"create table b (id int, v string) partitioned by (k int) clustered by (id) into 3 buckets"
        f" {ACID}"
    )
    with acid.stream("b", transactions_per_batch=4, open_files_max=open_files_max) as stream:
        for first in (0, 20, 40):
            with stream.transaction():
                stream.write([(first + one, "x", one % 3) for one in range(20)])
        assert ids(acid, "b") == list(range(60))
    assert ids(acid, "b") == list(range(60))


def test_the_history_tells_of_a_stream_which_can_be_undone(acid: Session) -> None:
    with acid.stream("p", transactions_per_batch=2) as stream:
        for number in (1, 2):
            with stream.transaction():
                stream.write({"id": number, "k": 1})
    last, first = (one.facts for one in acid.table("p").history())
    assert (last.kind, last.inserted, last.updated, last.deleted) == ("STREAM", 1, 0, 0)
    assert first.size_bytes > 0
    acid.undo(int(acid.table("p").history(limit=1)[0].txn))
    assert ids(acid, "p") == [1]
