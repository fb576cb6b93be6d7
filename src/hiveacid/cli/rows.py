"""``read``: a table's rows on the standard output or in a file, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hiveacid.cli.output import Format, print_rows

if TYPE_CHECKING:
    from hiveacid.table import AcidTable

_TABLE_NAME: Final = re.compile(r"\w+(\.\w+)?")


def read(
    target: str,
    *,
    columns: Sequence[str] | None,
    condition: str | None,
    partitions: str | None,
    limit: int | None,
    to: str | None,
    form: Format,
    url: str | None,
) -> None:
    """Print the rows of a path or table, or write them to the file ``to``.

    Raises:
        NotFoundError: no such path, table or column.
        AcidError: as ``hiveacid.read_arrow``.
    """
    import hiveacid
    from hiveacid.reading.export import export

    with _opened(target, url=url) as table:
        reader = hiveacid.read_arrow(
            table, columns=columns, filter=condition, partitions=partitions
        )
        if to is not None:
            print(f"{export(reader, _absolute(to)):,} rows")
            return
        names = reader.schema.names
        print_rows(names, _rows(reader, limit), form=form)


@contextmanager
def _opened(target: str, *, url: str | None) -> Iterator[str | AcidTable]:
    if url is None or Path(target).exists() or not _TABLE_NAME.fullmatch(target):
        yield _absolute(target)
        return
    import hiveacid

    with hiveacid.connect(None, url) as session:
        yield session.table(target)


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def _rows(reader: object, limit: int | None) -> Iterator[tuple[object, ...]]:
    left = limit
    for batch in reader:  # type: ignore[attr-defined]
        rows = batch if left is None else batch.slice(0, left)
        yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)
        if left is not None:
            left -= rows.num_rows
            if left <= 0:
                return
