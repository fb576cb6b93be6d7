"""LOAD DATA of a file by several sessions at once: its rows get into one table, and once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import hiveacid
from hiveacid.errors import AcidError, InvalidInputError, LockError
from hiveacid.session import Session
from hiveacid.statements.load import LoadWork

ACID = "stored as orc tblproperties ('transactional'='true')"
Open = Callable[[], Session]


@pytest.fixture
def session(metastore_url: str, tmp_path: Path) -> Iterator[Open]:
    """Opens sessions that wait for nobody, beside tables ``t`` and ``u``."""
    with ExitStack() as opened:

        def connected() -> Session:
            settings = {"hiveacid.lock.timeout_s": "0", "hiveacid.compactor.auto": "off"}
            return opened.enter_context(
                hiveacid.connect(metastore_url, warehouse=str(tmp_path / "wh"), settings=settings)
            )

        first = connected()
        for table, how in {"t": ACID, "u": ACID, "plain": "stored as orc"}.items():
            first.sql(f"create table {table} (id int) {how}")
        yield connected


def put(tmp_path: Path, name: str, *ids: int) -> Path:
    path = tmp_path / "in" / name
    path.parent.mkdir(exist_ok=True)
    orc.write_table(pa.table({"id": pa.array(ids, pa.int32())}), str(path))
    return path


def load(of: object, path: object, table: str = "t") -> object:
    return of.sql(f"load data inpath '{path}' into table {table}")  # type: ignore[attr-defined]


def ids(acid: Session, *tables: str) -> list[int]:
    return sorted(
        one
        for table in tables or ("t", "u")
        for one in hiveacid.read_arrow(acid.table(table)).read_all()["id"].to_pylist()
    )


@pytest.mark.parametrize("table", ["t", "u", "plain"])
@pytest.mark.parametrize("what", ["data", "", "d*"])
def test_a_file_that_an_open_transaction_has_loaded_is_nobody_elses(
    session: Open, tmp_path: Path, table: str, what: str
) -> None:
    path = put(tmp_path, "data", 1, 2)
    mine, other = session(), session()
    with mine.transaction() as txn:
        load(txn, path)
        with pytest.raises(LockError, match=r"in/data .* is held by .*\(LOAD DATA\)"):
            load(other, path.parent / what, table)
        assert path.exists()
    assert not path.exists()
    with pytest.raises(InvalidInputError, match="No files matching"):
        load(other, path.parent / what, table)
    assert ids(other, "t", "u", "plain") == [1, 2]
    assert list(path.parent.iterdir()) == [] and not mine.sql("show locks").rows


@pytest.mark.parametrize("of_one_session", [False, True])
def test_a_file_is_kept_from_others_until_it_is_removed(
    session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_one_session: bool
) -> None:
    path = put(tmp_path, "data", 1)
    mine = session()
    other = mine if of_one_session else session()
    remove, refused = LoadWork._remove, []

    def between(work: LoadWork, path: str) -> None:
        if not refused:
            assert ids(other) == [1]  # committed
            with pytest.raises(AcidError) as caught:
                load(other, path, "u")
            refused.append(type(caught.value))
        remove(work, path)

    monkeypatch.setattr(LoadWork, "_remove", between)
    load(mine, path)
    assert refused == [LockError] and not path.exists() and ids(other) == [1]


def test_who_waited_for_files_takes_those_that_are_left(
    session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = put(tmp_path, "first", 1), put(tmp_path, "second", 2)
    mine, other = session(), session()
    taken = LoadWork._taken

    def after_another(work: LoadWork, job: object) -> object:
        monkeypatch.setattr(LoadWork, "_taken", taken)
        load(mine, first)
        return taken(work, job)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadWork, "_taken", after_another)
    assert load(other, first.parent, "u").files == 1  # type: ignore[attr-defined]
    assert ids(other, "t") == [1] and ids(other, "u") == [2] and not second.exists()


def test_a_transaction_takes_a_file_once_and_again_after_a_rollback(
    session: Open, tmp_path: Path
) -> None:
    path, acid = put(tmp_path, "data", 1), session()
    with acid.transaction() as txn:
        txn.savepoint("before")
        load(txn, path)
        with pytest.raises(InvalidInputError, match="No files matching"):
            load(txn, path, "u")
        txn.rollback_to("before")
        load(txn, path, "u")
    assert ids(acid, "t") == [] and ids(acid, "u") == [1] and not path.exists()


def test_a_load_that_is_rolled_back_leaves_the_file_to_others(
    session: Open, tmp_path: Path
) -> None:
    path, other = put(tmp_path, "data", 1), session()
    with pytest.raises(ZeroDivisionError), session().transaction() as txn:
        load(txn, path)
        raise ZeroDivisionError
    load(other, path, "u")
    assert ids(other) == [1] and not path.exists()
