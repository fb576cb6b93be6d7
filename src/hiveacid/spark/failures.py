"""What a failed Spark job means: the error of ours that its text stands for.

A failure crosses from a task to the driver as text, and the class around it differs: PySpark raises
its own classes for some and py4j's for the rest, more of the latter in 3.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from hiveacid.errors import (
    AcidError,
    CardinalityError,
    ConversionError,
    FormatError,
    InternalError,
    InvalidInputError,
    MissingExtraError,
    MissingFileError,
    SnapshotExpiredError,
    StorageError,
    TransactionError,
    UnsupportedError,
)
from hiveacid.spark.assign import CONSTRAINT_TEXT, CONVERSION_MARK
from hiveacid.storage.failures import is_passing
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import missing_or_expired

FOREIGN_FILE_MARK: Final = "HIVEACID-FOREIGN-FILE"
"""Stands in the error that a scan raises at a row of an ORC file that is not an ACID file."""

Reach = Callable[[str], tuple[FileSystem, str]]
"""Gives the file system of a location, and its path within: ``Files.at``."""
_OURS: Final = re.compile(
    r"hiveacid\.errors\.(?P<name>\w+): (?:\[Error (?P<code>\d+)\]: )?"
    r"(?P<message>[^\n]*?)(?= SQLSTATE: |\n|\Z)(?P<notes>(?:\n\S[^\n]*)*)"
)
_TYPED: Final[dict[str, type[AcidError]]] = {
    cls.__name__: cls
    for cls in (
        ConversionError,
        FormatError,
        MissingFileError,
        SnapshotExpiredError,
        StorageError,
        InternalError,
        InvalidInputError,
        MissingExtraError,
        UnsupportedError,
    )
}
_MISSING: Final = re.compile(
    r"FileNotFoundException: (?:File )?(?P<path>\S+) does not exist"
    r"|FILE_NOT_EXIST\] Encountered error while reading file (?P<read>\S+?)\.(?=\s)"
)
_UNREADABLE: Final = re.compile(
    r"Malformed ORC file (?P<path>\S+?)\.?(?=\s)"
    r"|Encountered error while reading file (?P<read>\S+?)\.(?=\s)"
    r"|org\.apache\.orc\.(?:protobuf\.Invalid|FileFormatException|impl\.\S+Exception)"
    rf"|{FOREIGN_FILE_MARK}"
)
_NULL_PUSHED: Final = re.compile(r"NullPointerException[^\n]*\n[^\n]*(?:OrcFilters|HiveDecimal)")
_UNREACHED: Final = re.compile(
    r"java\.net\.\w+Exception[^\n]*|\S+\.(?:Standby|SafeMode|BlockMissing)Exception[^\n]*"
)
"""The place of a file did not answer, or not yet: nothing is known of the file."""
_NAME_NODE: Final = re.compile(
    r"Call From \S+ to \S+ failed on [^\n]*"
    r"|org\.apache\.hadoop\.[\w.]+\.(?:Standby|SafeMode|Retriable)Exception[^\n]*"
)
"""The same, of a name node that Spark's driver asks what there is."""
_NO_ANSWER: Final = "no-answer"
_Answer = TypeVar("_Answer")
_DIED: Final = re.compile(
    "ExecutorLostFailure|Python worker exited unexpectedly|maximum allowable number of times"
)
"""A task whose process died, as often as Spark tries; or a stage, by results that died with one."""
_CANCELLED: Final = re.compile(r"Job \S+ (?:was )?cancelled[^\n]*?(?= SQLSTATE| *\n| *\Z)")
_IN_WORKER: Final = re.compile(r"api\.python\.PythonException|from the Python worker")
_LACKS: Final = re.compile(
    r"No module named '(?P<module>pyarrow|numpy|pandas|google\.protobuf|google|hiveacid)\b"
    r"|(?P<package>\w+) >= (?P<least>[\w.]+) must be installed; however, "
    r"(?:it was not found|your version is (?P<version>[\w.]*\w))"
)
_OTHER_PYTHON: Final = re.compile(
    r"Python in worker has different version:? \(?(?P<theirs>[\d., ]+)\)? than that in driver:? "
    r"(?P<ours>[\d.]+)"
)
_NO_PYTHON: Final = re.compile(r'Cannot run program "(?P<program>[^"]*python[^"]*)"')
_CHOOSE: Final = "PYSPARK_PYTHON or spark.pyspark.python says which Python the workers run."
_ABORTED: Final = re.compile(r"Job aborted due to stage failure: (?P<what>[^\n]*)")


def statement_error(error: Exception, *, at: Reach | None = None) -> Exception:
    """The error of ours that a failed Spark job stands for; ``error`` itself where it is none of
    ours. ``at`` reaches the files that it read: ``Files.at``; None where it read none.

    A ``FormatError`` has ``path`` in its context where Spark names the file.
    """
    text = str(error)
    if CONVERSION_MARK in text:
        found = re.search(CONVERSION_MARK + r" ([^\n]*?)(?: SQLSTATE.*)?$", text, re.MULTILINE)
        what = found.group(1) if found else "a value"
        return ConversionError(what if what == CONSTRAINT_TEXT else f"cannot store {what}")
    ours = _OURS.search(text)
    if ours and ours["name"] == CardinalityError.__name__:
        row = ours["message"].partition(": ")[2]
        return CardinalityError(ours["message"], row=row)
    if ours and ours["name"] in _TYPED:
        code = None if ours["code"] is None else int(ours["code"])
        note = ours["notes"].strip().replace("\n", " ") or None
        return _TYPED[ours["name"]](ours["message"], code=code, note=note)
    if cancelled := _CANCELLED.search(text):
        return TransactionError(f"Spark's job was cancelled, so nothing is done: {cancelled[0]}")
    return _python_error(text) or _file_error(text, at) or _death(text) or error


def done_by_spark(
    job: Callable[[], _Answer], *, at: Reach | None, place: str | None = None
) -> _Answer:
    """What a job answers; ``at`` as in ``statement_error``. It runs again where a file's server
    did not answer Spark's own reader, for as long as that server is asked again by ourselves:
    Spark repeats a task at once, if at all. ``place`` is a location on the server that is asked
    where Spark does not say of which file.

    Raises:
        AcidError: what the failure of the job stands for; the failure itself where that is nothing
        of ours.
    """

    def done() -> _Answer:
        try:
            return job()
        except AcidError:
            raise
        except Exception as error:  # PySpark's, or py4j's
            known = statement_error(error, at=at)
            if known is error:
                raise
            raise known from OSError(str(known)) if _is_unreached(known) else error

    try:
        return done()
    except StorageError as error:
        asked = error.context.get("path", place)
        if at is None or asked is None or not _is_unreached(error):
            raise
        fs, path = at(str(asked))
        return fs.made_again(path, done)


def _is_unreached(error: Exception) -> bool:
    if not isinstance(error, StorageError):
        return False
    return error.context.get("detail") == _NO_ANSWER and is_passing(error)


def _python_error(text: str) -> AcidError | None:
    """What is wrong with the Python of Spark's workers."""
    absent, other = _NO_PYTHON.search(text), _OTHER_PYTHON.search(text)
    if absent:
        return InvalidInputError(f"Spark's workers have no {absent['program']}", note=_CHOOSE)
    if other:
        theirs = other["theirs"].replace(", ", ".")
        return InvalidInputError(
            f"Spark's workers run Python {theirs}, and this is Python {other['ours']}: PySpark "
            "needs the same minor version on both sides",
            note=_CHOOSE,
        )
    lacks = _LACKS.search(text) if _IN_WORKER.search(text) else None
    if not lacks:
        return None
    name = (lacks["module"] or lacks["package"]).lower().replace("google", "protobuf")
    name = name.partition(".")[0]
    wanted = f"'{name}>={lacks['least']}'" if lacks["least"] else name
    what = (
        f"has {name} {lacks['version']}, which is too old" if lacks["version"] else f"lacks {name}"
    )
    return MissingExtraError(
        f"The Python of Spark's workers {what}",
        note=f"On each machine of the cluster: pip install {wanted}",
    )


def _death(text: str) -> AcidError | None:
    aborted = _ABORTED.search(text)
    if not aborted or not _DIED.search(text):
        return None
    return StorageError(
        f"The processes of Spark that did the work died: {aborted['what']}",
        note="Spark's log says more; most often they ran out of memory.",
    )


def _file_error(text: str, at: Reach | None) -> AcidError | None:
    missing = _MISSING.search(text)
    if missing:
        path = _local(missing["path"] or missing["read"])
        fs, place = (None, path) if at is None else at(path)
        gone = MissingFileError(f"{path} does not exist", path=place)
        return gone if fs is None else missing_or_expired(fs, gone)
    if "No space left on device" in text:
        return StorageError("Spark found no space left on device")
    if _NULL_PUSHED.search(text):
        return UnsupportedError(
            "Spark's ORC reader fails on NULL in a list of numbers",
            note="Leave None out of isin(...), or write the condition as text.",
        )
    unreadable = _UNREADABLE.search(text)
    if not unreadable:
        refused = _NAME_NODE.search(text)
        return refused and StorageError(f"Spark: {refused[0].strip()}", detail=_NO_ANSWER)
    given = unreadable["path"] or unreadable["read"]
    if given is None:
        return FormatError("Spark cannot read a file of the table as an ACID ORC file")
    path = _local(given)
    if "Permission denied" in text:
        return StorageError(f"{path} cannot be read: permission denied", path=path)
    unreached = _UNREACHED.search(text)
    if unreached:
        text = f"{path} cannot be read: {unreached[0].strip()}"
        return StorageError(text, path=path, detail=_NO_ANSWER)
    return FormatError(f"{path} cannot be read as an ORC file", path=path)


def _local(path: str) -> str:
    """A path as the rest of hiveacid writes it: a local file without scheme."""
    return re.sub(r"^file:(?://)?(?=/)", "", path)
