"""What readers see of a stream's open file, whatever its side file says at that moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import FormatError
from hiveacid.session import Session
from hiveacid.storage.orc.flushed_file import FlushedFile

pytestmark = pytest.mark.slow
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=OFF) as session:
        session.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        yield session


def ids(acid: Session) -> list[int]:
    return sorted(read_arrow(acid.table("t")).read_all()["id"].to_pylist())


def test_a_reader_between_rows_and_their_length_sees_the_commits_before(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    append_length = FlushedFile._append_length

    def look_first(file: FlushedFile) -> None:
        seen.append(ids(acid))
        append_length(file)
        seen.append(ids(acid))

    with acid.stream("t", transactions_per_batch=3) as stream:
        with stream.transaction():
            stream.write({"id": 1})
        monkeypatch.setattr(FlushedFile, "_append_length", look_first)
        with stream.transaction():
            stream.write({"id": 2})
        assert seen == [[1], [1]]  # and between the length and the commit
        assert ids(acid) == [1, 2]


def test_a_side_file_that_was_cut_off_counts_up_to_its_last_whole_length(
    acid: Session, tmp_path: Path
) -> None:
    with acid.stream("t", transactions_per_batch=3) as stream:
        for number in (1, 2):
            with stream.transaction():
                stream.write({"id": number})
        (side,) = (tmp_path / "wh" / "t").rglob("*_flush_length")
        whole = side.read_bytes()
        assert len(whole) == 3 * 8
        side.write_bytes(whole[:-3])
        assert ids(acid) == [1]
        side.write_bytes(whole[:3])
        with pytest.raises(FormatError, match="_flush_length"):
            ids(acid)
        side.write_bytes(whole)
        assert ids(acid) == [1, 2]
