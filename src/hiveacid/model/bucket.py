"""The identity of a row, and the ``bucket`` number in it that packs file and statement (4.4).

V0 (before Hive 3)  the bucket id itself
V1                  3 bits version 1 | 1 reserved | 12 bucket id | 4 reserved | 12 statement id
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.model.tables import MAX_BUCKET_ID, MAX_STATEMENT_ID, StatementId

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

    @property
    def statement_id(self) -> StatementId:
        """The statement that wrote the row, 0 where there is none."""
        return BucketCodec.decode(self.bucket).statement_id


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
