"""What a DML statement answers: small values with counts and the write id.

``retries``: how often it ran again because another transaction won.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.model.ids import WriteId


@dataclass(frozen=True, slots=True)
class InsertResult:
    """``write_id`` is 0 for a table that is not transactional."""

    rows: int
    write_id: WriteId
    retries: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Rows changed."""

    rows: int
    write_id: WriteId
    retries: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """Rows deleted; None where DELETE without WHERE emptied the table without counting."""

    rows: int | None
    write_id: WriteId
    retries: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Rows by what happened to them."""

    updated: int
    deleted: int
    inserted: int
    write_id: WriteId
    retries: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Files that were loaded as they are; ``write_id`` is 0 for a table that is not
    transactional.
    """

    files: int
    write_id: WriteId
    retries: int = field(default=0, repr=False, compare=False)


Result = InsertResult | LoadResult | UpdateResult | DeleteResult | MergeResult
