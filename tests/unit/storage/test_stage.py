"""The files of a task, where closing or giving up one of them fails."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.errors import StorageError
from hiveacid.model.tables import StatementId, Table, TableName, WriteId
from hiveacid.storage import stage
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files
from hiveacid.storage.target import FileKind, WriteTarget, WrittenFile
from hiveacid.testing import ManualClock


class Writer:
    """Fails as it is told; ``ended`` are those that were given up."""

    ended: list[str] = []

    def __init__(self, kind: FileKind, *, failing: str) -> None:
        self._name = kind.value
        self._failing = failing

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Nowhere."""

    def close(self) -> None:
        """See ``failing``."""
        if self._failing == "close" and self._name == "delete":
            raise StorageError("no answer")

    def abort(self) -> None:
        """See ``failing``."""
        self.ended.append(self._name)
        if self._failing == "abort":
            raise StorageError("no answer")


@pytest.mark.parametrize("failing", ["close", "abort"])
def test_no_file_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    monkeypatch.setattr(Writer, "ended", [])
    monkeypatch.setattr(
        stage, "open_row_writer", lambda *_, kind, **__: Writer(kind, failing=failing)
    )
    table = Table(TableName("d", "t"), (), str(tmp_path), properties={"transactional": "true"})
    target = WriteTarget(Files(), table, WriteId(1), str(tmp_path / "_staging"))
    with pytest.raises(StorageError), stage.Stager(target, name="x") as stager:
        for number, kind in enumerate((FileKind.DELETE, FileKind.INSERT)):
            stager.writer(kind, StatementId(number), partition=(), bucket=0)
        if failing == "abort":
            raise ValueError("a row is wrong")
    assert sorted(Writer.ended) == ["delete", "insert"]


@dataclass
class Failing:
    """A stage that fails once, with what a server said."""

    target: WriteTarget
    said: list[str]
    attempts: int = 0

    def staged(self, batches: Sequence[pa.RecordBatch], *, name: str) -> list[WrittenFile]:
        """No file, or a failure."""
        del batches, name
        self.attempts += 1
        if self.said:
            raise StorageError("nothing is written") from OSError(self.said.pop())
        return []


@pytest.mark.parametrize(("said", "attempts"), [("SafeModeException", 2), ("QuotaExceeded", 1)])
def test_what_the_driver_writes_is_written_again_where_it_failed_in_passing(
    tmp_path: Path, said: str, attempts: int
) -> None:
    table = Table(TableName("d", "t"), (), str(tmp_path), properties={"transactional": "true"})
    files = Files(retries=Retries(60, ManualClock()))
    failing = Failing(WriteTarget(files, table, WriteId(1), str(tmp_path / "_staging")), [said])
    with nullcontext() if attempts == 2 else pytest.raises(StorageError, match="is written"):
        stage.staged_here(failing, [], name="rows")  # type: ignore[arg-type]
    assert failing.attempts == attempts
