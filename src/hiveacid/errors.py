"""The one tree of errors that hiveacid raises.

Grouped by what a caller would do. Every error has a stable ``kind`` (append-only), ``retry``
(whether the same call may succeed later, unchanged), ``code`` (Hive's error number where Hive has
one) and ``context`` (the facts). The message is one sentence with the facts; remedies are PEP 678
notes.

    AcidError
    +-- ConflictError            another transaction changed what this one changed; run it again
    +-- ChangedSinceError        undo would overwrite what others did since
    +-- LockError                a lock is held by somebody else
    +-- TransactionError         the transaction is aborted or closed
    |   +-- CommitOutcomeUnknownError
    +-- NotFoundError            (KeyError)   no such database, table, column, partition, file
    +-- AlreadyExistsError
    +-- InvalidInputError        (ValueError) the caller must change something
    |   +-- SqlSyntaxError       with line and column
    |   +-- UnsupportedError
    |   +-- MissingExtraError    an optional package is not installed
    |   |   +-- SparkNeededError
    |   +-- CardinalityError     two source rows for one target row in MERGE
    |   +-- ConversionError      a value that cannot be converted
    +-- FormatError              a file or name is not what the format says: path, expected, found
    +-- CompactionError          a compaction was refused, or it failed
    +-- MetastoreError
    +-- StorageError             the file system failed
    |   +-- SnapshotExpiredError
    |   +-- MissingFileError     a file that a listing promised is not there
    +-- InternalError            a bug in hiveacid
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import Logger
from typing import ClassVar


class AcidError(Exception):
    """Base of every error that hiveacid raises."""

    kind: ClassVar[str] = "acid"
    retry: ClassVar[bool] = False

    def __init__(
        self, message: str, *, code: int | None = None, note: str | None = None, **context: object
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = context
        if note is not None:
            self.add_note(note)

    def add_note(self, note: str, /) -> None:
        """Say what to do; Python 3.10 has no notes of its own."""
        self.__notes__ = [*getattr(self, "__notes__", ()), note]

    def __str__(self) -> str:
        return f"[Error {self.code}]: {self.message}" if self.code is not None else self.message

    def __reduce__(self) -> tuple[object, ...]:
        facts = (type(self), self.message, self.code, self.context)
        notes: list[str] = getattr(self, "__notes__", [])
        return (_rebuild, facts, {"__notes__": list(notes)} if notes else {})


def _rebuild(
    cls: type[AcidError], message: str, code: int | None, context: dict[str, object]
) -> AcidError:
    return cls(message, code=code, **context)  # type: ignore[arg-type]


class ConflictError(AcidError):
    """Another transaction committed a change to the same rows or partition first."""

    kind = "conflict"
    retry = True


class ChangedSinceError(AcidError):
    """Rows that a transaction left have changed since, so it cannot be undone: ``rows`` are the
    first of them (``undo.ChangedRow``), ``count`` is how many there are.
    """

    kind = "changed-since"

    @property
    def rows(self) -> tuple[object, ...]:
        """The first of them, each with its table, as it was left and as it is."""
        found = self.context.get("rows", ())
        return found if isinstance(found, tuple) else ()


class LockError(AcidError):
    """A lock could not be had before the deadline; the context names the holder."""

    kind = "lock"
    retry = True


class TransactionError(AcidError):
    """The transaction is aborted, closed or unknown."""

    kind = "transaction"


class CommitOutcomeUnknownError(TransactionError):
    """The commit was sent, its reply was lost, and the outcome could not be looked up."""

    kind = "commit-outcome-unknown"


class NotFoundError(AcidError, KeyError):
    """The named database, table, partition, column or file does not exist."""

    kind = "not-found"

    def __str__(self) -> str:
        return AcidError.__str__(self)


def no_such_table(name: object) -> NotFoundError:
    """Hive's error 10001."""
    return NotFoundError(f"Table not found {name}", code=10001, table=str(name))


class AlreadyExistsError(AcidError):
    """The named database, table or partition exists already."""

    kind = "already-exists"


class InvalidInputError(AcidError, ValueError):
    """The statement, setting or argument is wrong."""

    kind = "invalid-input"


class SqlSyntaxError(InvalidInputError):
    """The text is not a statement; the context has ``line`` and ``column`` (both from 1)."""

    kind = "sql-syntax"


class UnsupportedError(InvalidInputError):
    """The statement or type is known, and not supported."""

    kind = "unsupported"


class MissingExtraError(InvalidInputError):
    """An optional package is not installed; a note is the ``pip install`` line."""

    kind = "missing-extra"


class SparkNeededError(MissingExtraError):
    """What was asked for needs Spark, and the session was connected without, or its Spark was
    stopped; or Spark needs a package that is not installed.
    """

    kind = "spark-needed"


def spark_needed(what: str, *, instead: str = "") -> SparkNeededError:
    """``what`` needs a Spark session and there is none; ``instead`` is a sentence that names what
    does without.
    """
    note = "Give one: hiveacid.connect(spark, url, warehouse=...), or acid.use_spark(spark)."
    if importlib.util.find_spec("pyspark") is None:
        note = "PySpark is not installed: pip install 'hiveacid[spark]'"
    error = SparkNeededError(
        f"{what} needs Spark: the session was connected without, or it was stopped", note=note
    )
    if instead:
        error.add_note(instead)
    return error


class CardinalityError(InvalidInputError):
    """More than one source row matched a target row in MERGE."""

    kind = "merge-cardinality"


def cardinality_error(row: object, keys: Mapping[str, object]) -> CardinalityError:
    """Several source rows match the target row with this ROW__ID and these values in the columns
    that they are matched by.
    """
    values = ", ".join(f"{name} = {value!r}" for name, value in keys.items())
    which = f"{row} ({values})" if values else f"{row}"
    order = f"partition by {', '.join(keys) or 'the key'} order by ..."
    return CardinalityError(
        f"Cardinality Violation in Merge statement: {which} is matched by more than one source row",
        note=f"Let the source have one row of each key: row_number() over ({order}) = 1.",
        row=row,
        keys=dict(keys),
    )


class ConversionError(InvalidInputError):
    """A value cannot be converted to the column's type (``hiveacid.store_assignment``) or breaks a
    constraint.
    """

    kind = "conversion"


class FormatError(AcidError):
    """A file, name or text is not of the expected form; the context has ``path``."""

    kind = "format"


class CompactionError(AcidError):
    """A request for a compaction was refused (10432), or the compaction failed; no row is touched.

    The context has the ``table`` and the ``partition``.
    """

    kind = "compaction"


class MetastoreError(AcidError):
    """The metastore database failed or is not one of ours."""

    kind = "metastore"


class StorageError(AcidError):
    """The file system failed: no space, no permission, input/output error; or the processes of
    Spark that read and wrote died.
    """

    kind = "storage"


class SnapshotExpiredError(StorageError):
    """Files of the snapshot were cleaned while it was being read without a lease."""

    kind = "snapshot-expired"


class MissingFileError(StorageError):
    """A file that a listing promised does not exist; it is never skipped silently."""

    kind = "missing-file"


class InternalError(AcidError):
    """An invariant of hiveacid is broken: a bug; please report it."""

    kind = "internal"


@contextmanager
def tolerated(
    log: Logger, text: str, *facts: object, only: type[AcidError] = AcidError, **extra: object
) -> Iterator[None]:
    """Where an error of ours, or ``only`` of one class, must stop nothing: it ends the block, and
    is a warning in the log, ``text`` with the ``facts`` and the error itself in it.
    """
    try:
        yield
    except only as error:
        log.warning(text, *facts, error, extra=extra, stacklevel=3)
