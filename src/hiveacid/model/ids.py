"""The identity of a row, with the ``bucket`` number in it that packs file and statement (4.4); and
what a reader may see: valid transactions, valid write ids of a table, and their text forms.

    V0 (before Hive 3)  the bucket id itself
    V1                  3 bits version 1 | 1 reserved | 12 bucket id | 4 reserved | 12 statement id

Hive hands the lists from client to tasks as text; ``parse`` reads every form Hive wrote and ``str``
writes Hive 4's (format.md 3, metastore.md 2.4 and 2.6). An id is valid when it is at or below the
high watermark and not an exception; exceptions are the open and the aborted ids. Look-ups are
binary searches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import islice
from operator import eq

from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.model.tables import LONG_MAX, MAX_BUCKET_ID, MAX_STATEMENT_ID, StatementId

_VERSION_SHIFT = 29
_BUCKET_SHIFT = 16
_BUCKET_MASK = 0x0FFF_0000
_STATEMENT_MASK = 0x0FFF


class BucketCodec(IntEnum):
    """How a bucket property packs its parts; the value is the number in its top three bits."""

    V0 = 0
    V1 = 1

    @staticmethod
    def decode(value: int) -> BucketProperty:
        """The parts of a bucket property, read as a signed 32-bit integer.

        Raises:
            FormatError: the version is not one of ours.
        """
        version = (value & 0xFFFF_FFFF) >> _VERSION_SHIFT
        if version == BucketCodec.V0:
            return BucketProperty(BucketCodec.V0, value, StatementId(0))
        if version == BucketCodec.V1:
            bucket_id = (value & _BUCKET_MASK) >> _BUCKET_SHIFT
            return BucketProperty(BucketCodec.V1, bucket_id, StatementId(value & _STATEMENT_MASK))
        raise FormatError(
            f"Bucket property {value} is of unknown version {version}",
            path="",
            expected="version 0 or 1",
            found=value,
        )


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """A decoded bucket property: the number of the file and the statement that wrote it."""

    codec: BucketCodec
    bucket_id: int
    statement_id: StatementId


@dataclass(frozen=True, slots=True, order=True)
class RowId:
    """The identity of a row in its partition; ordered as rows are in files (format.md 4.3, 4.5).

    ``bucket`` is the encoded property, what ``ROW__ID.bucketid`` shows.
    """

    write_id: int
    bucket: int
    row_id: int

    @property
    def bucket_id(self) -> int:
        """The number of the ``bucket_N`` file that holds the row."""
        return BucketCodec.decode(self.bucket).bucket_id


def encode_bucket(bucket_id: int, statement_id: int = 0) -> int:
    """The bucket property that writers use (V1); statement -1 (none) counts as 0.

    >>> encode_bucket(1, 2)
    536936450

    Raises:
        InvalidInputError: an id is beyond 4095 (format.md 4.4).
    """
    if not 0 <= bucket_id <= MAX_BUCKET_ID or not -1 <= statement_id <= MAX_STATEMENT_ID:
        raise InvalidInputError(
            f"Bucket {bucket_id} and statement {statement_id} do not fit a bucket property",
            bucket_id=bucket_id,
            statement_id=statement_id,
        )
    return 1 << _VERSION_SHIFT | bucket_id << _BUCKET_SHIFT | max(statement_id, 0)


def bucket_id_of(value: int) -> int:
    """The file number in a bucket property.

    Raises:
        FormatError: the version is not one of ours.
    """
    return BucketCodec.decode(value).bucket_id


_RANGE_RUN_MIN = 5


class RangeValidity(Enum):
    """How much of a range of ids something holds for."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class ListKind(Enum):
    """Whose rules a ``ValidWriteIdList`` answers by."""

    READER = "reader"
    """format.md 3.1"""
    COMPACTOR = "compactor"
    """format.md 3.2: a range counts as a whole or not at all, whatever of it is aborted"""
    CLEANER = "cleaner"
    """format.md 3.3: a range that ends above the watermark is not valid"""


@dataclass(frozen=True, slots=True)
class ValidTxnList:
    """The transactions whose effects a reader may see; ``open`` and ``aborted`` are sorted.

    ``min_open`` is the lowest open transaction, 2**63-1 where none is open. ``str`` gives
    ``hwm:min_open:open:aborted``, in which runs of five and more ids are written ``a-b``.
    """

    hwm: int
    min_open: int = LONG_MAX
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _normalise(self, self.open, self.aborted)

    @classmethod
    def of(
        cls,
        *,
        hwm: int,
        open: Iterable[int] = (),
        aborted: Iterable[int] = (),
        current: int = 0,
    ) -> ValidTxnList:
        """The list for a reader inside transaction ``current`` (0: outside any).

        The reader sees its own writes and nothing later: the watermark is at most ``current``,
        and ``current`` itself and later ids are not exceptions (format.md 3.4).
        """
        opened, gone = tuple(open), tuple(aborted)
        if current > 0:
            hwm = min(current, hwm)
            opened = tuple(txn for txn in opened if txn < current)
            gone = tuple(txn for txn in gone if txn < current)
        return cls(hwm=hwm, min_open=min(opened, default=LONG_MAX), open=opened, aborted=gone)

    @classmethod
    def everything(cls) -> ValidTxnList:
        """The list in which every transaction is committed."""
        return cls(hwm=LONG_MAX)

    @classmethod
    def parse(cls, text: str) -> ValidTxnList:
        """Read 2 to 4 fields, with or without ``a-b`` runs; an empty text makes everything valid.

        Raises:
            FormatError: the text is not a list of transactions.
        """
        if not text:
            return cls.everything()
        fields = text.split(":")
        if not 2 <= len(fields) <= 4:
            raise _not_a_list(text, "hwm:minOpen:open:aborted")
        try:
            return cls(
                hwm=int(fields[0]),
                min_open=int(fields[1]),
                open=_parse_ids(fields[2]) if len(fields) > 2 else (),
                aborted=_parse_ids(fields[3]) if len(fields) > 3 else (),
            )
        except ValueError as error:
            raise _not_a_list(text, "hwm:minOpen:open:aborted") from error

    def __str__(self) -> str:
        return f"{self.hwm}:{self.min_open}:{_format_runs(self.open)}:{_format_runs(self.aborted)}"

    def is_valid(self, txn: int) -> bool:
        """Whether the transaction is committed for this reader; 0 (no transaction) always is."""
        return txn <= self.hwm and not _contains(self.exceptions, txn)

    def is_aborted(self, txn: int) -> bool:
        """Whether the transaction is known to be aborted."""
        return _contains(self.aborted, txn)


@dataclass(frozen=True, slots=True)
class ValidWriteIdList:
    """The write ids of one table that a reader may see; ``open`` and ``aborted`` are sorted.

    ``table`` is ``db.table`` in lower case or None. ``min_open`` is the lowest open write id,
    2**63-1 where none is open. ``str`` gives Hive's ``table:hwm:min_open:open:aborted``;
    ``kind`` is not part of the text.
    """

    table: str | None
    hwm: int
    min_open: int = LONG_MAX
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    kind: ListKind = ListKind.READER
    exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.table is not None and not self.table.islower():
            object.__setattr__(self, "table", self.table.lower())
        _normalise(self, self.open, self.aborted)

    @classmethod
    def of(
        cls,
        table: str | None,
        *,
        hwm: int,
        open: Iterable[int] = (),
        aborted: Iterable[int] = (),
    ) -> ValidWriteIdList:
        """A reader's list whose ``min_open`` is the lowest of ``open``."""
        opened = tuple(open)
        return cls(table, hwm, min(opened, default=LONG_MAX), opened, tuple(aborted))

    @classmethod
    def everything(cls, table: str | None = None) -> ValidWriteIdList:
        """The list in which every write id is committed."""
        return cls(table, LONG_MAX)

    @classmethod
    def parse(cls, text: str, *, kind: ListKind = ListKind.READER) -> ValidWriteIdList:
        """Read 3 to 5 fields; an empty text makes everything valid.

        Raises:
            FormatError: the text is not a list of write ids.
        """
        if not text:
            return cls(None, LONG_MAX, kind=kind)
        fields = text.rsplit(":", 4)  # a table's name may have colons, too
        _, colon, last = fields[0].rpartition(":")
        if len(fields) < 3 or (colon and last.isdigit()):
            raise _not_a_list(text, "table:hwm:minOpen:open:aborted")
        try:
            return cls(
                table=None if fields[0].lower() in ("null", "") else fields[0],
                hwm=int(fields[1]),
                min_open=int(fields[2]),
                open=_parse_ids(fields[3]) if len(fields) > 3 else (),
                aborted=_parse_ids(fields[4]) if len(fields) > 4 else (),
                kind=kind,
            )
        except ValueError as error:
            raise _not_a_list(text, "table:hwm:minOpen:open:aborted") from error

    def __str__(self) -> str:
        open_text = ",".join(map(str, self.open))
        aborted_text = ",".join(map(str, self.aborted))
        return f"{self.table or 'null'}:{self.hwm}:{self.min_open}:{open_text}:{aborted_text}"

    @property
    def min_open_write_id(self) -> int | None:
        """The lowest open write id, None where none is open."""
        return None if self.min_open == LONG_MAX else self.min_open

    def for_compactor(self) -> ValidWriteIdList:
        """The compactor's list: it ends below the lowest open id and keeps the aborted (3.2)."""
        lowest = self.open[0] if self.open else LONG_MAX
        hwm = min(self.hwm, lowest - 1)
        aborted = self.aborted[: bisect_right(self.aborted, hwm)]
        return ValidWriteIdList(
            self.table, hwm, self.min_open, (), aborted, kind=ListKind.COMPACTOR
        )

    def for_cleaner(self, *, hwm: int | None = None) -> ValidWriteIdList:
        """The cleaner's list (3.3), its watermark lowered to ``hwm`` where given."""
        top = self.hwm if hwm is None else min(hwm, self.hwm)
        return ValidWriteIdList(
            self.table,
            top,
            self.min_open,
            self.open[: bisect_right(self.open, top)],
            self.aborted[: bisect_right(self.aborted, top)],
            kind=ListKind.CLEANER,
        )

    def is_valid(self, write_id: int) -> bool:
        """Whether the write id is committed for this reader; 0 (original files) always is."""
        if write_id == 0:
            return True
        return write_id <= self.hwm and not _contains(self.exceptions, write_id)

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id is known to be aborted."""
        if self.kind is ListKind.COMPACTOR:
            return _contains(self.exceptions, write_id)
        return _contains(self.aborted, write_id)

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a *compacted* base of this write id holds nothing open."""
        return write_id < self.min_open and write_id <= self.hwm

    def covers(self, other: ValidWriteIdList) -> bool:
        """Whether all that ``other`` sees is seen here."""
        within = self.exceptions[: bisect_right(self.exceptions, other.hwm)]
        if not set(within) <= set(other.exceptions):
            return False
        above = range(self.hwm + 1, other.hwm + 1)
        return not above or _count_between(other.exceptions, above[0], above[-1]) == len(above)

    def range_validity(self, first: int, last: int) -> RangeValidity:
        """How many of ``first..last`` (both inclusive) are valid, by the rules of ``kind``."""
        if self.kind is ListKind.COMPACTOR:
            return RangeValidity.ALL if last <= self.hwm else RangeValidity.NONE
        if first > self.hwm or (self.kind is ListKind.CLEANER and last > self.hwm):
            return RangeValidity.NONE
        known = _count_between(self.exceptions, first, min(last, self.hwm))
        invalid = max(0, last - self.hwm) + known
        if invalid <= 0:
            return RangeValidity.ALL
        return RangeValidity.NONE if invalid >= last - first + 1 else RangeValidity.SOME

    def all_valid(self, first: int, last: int) -> bool:
        """Whether no row of ``first..last`` needs a look at its write id, whatever ``kind``."""
        return last <= self.hwm and _count_between(self.exceptions, first, last) == 0

    def range_aborted(self, first: int, last: int) -> RangeValidity:
        """How many of ``first..last`` (both inclusive) are aborted."""
        if self.hwm < first:
            return RangeValidity.NONE
        gone = self.exceptions if self.kind is ListKind.COMPACTOR else self.aborted
        count = _count_between(gone, first, last)
        if count == 0:
            return RangeValidity.NONE
        return RangeValidity.ALL if count == last - first + 1 else RangeValidity.SOME


def _normalise(
    target: ValidTxnList | ValidWriteIdList, opened: Iterable[int], aborted: Iterable[int]
) -> None:
    gone, still_open = sorted(aborted), sorted(opened)
    exceptions = sorted(gone + still_open)
    if any(map(eq, exceptions, islice(exceptions, 1, None))):  # an id is there twice
        gone = sorted(set(gone))
        still_open = sorted(set(still_open).difference(gone))
        exceptions = sorted(gone + still_open)
    object.__setattr__(target, "open", tuple(still_open))
    object.__setattr__(target, "aborted", tuple(gone))
    object.__setattr__(target, "exceptions", tuple(exceptions))


def _contains(ids: tuple[int, ...], wanted: int) -> bool:
    at = bisect_left(ids, wanted)
    return at < len(ids) and ids[at] == wanted


def _count_between(ids: tuple[int, ...], first: int, last: int) -> int:
    return max(0, bisect_right(ids, last) - bisect_left(ids, first))


def _parse_ids(text: str) -> tuple[int, ...]:
    ids: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if dash:
            ids.extend(range(int(first), int(last) + 1))
        else:
            ids.append(int(first))
    return tuple(ids)


def _format_runs(ids: tuple[int, ...]) -> str:
    parts: list[str] = []
    start = 0
    for at in range(1, len(ids) + 1):
        if at < len(ids) and ids[at] == ids[at - 1] + 1:
            continue
        run = ids[start:at]
        if len(run) >= _RANGE_RUN_MIN:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(map(str, run))
        start = at
    return ",".join(parts)


def _not_a_list(text: str, expected: str) -> FormatError:
    return FormatError(
        f"Not a list of valid ids: {text[:200]!r}; it has the form {expected}",
        path="",
        expected=expected,
        found=text[:200],
    )
