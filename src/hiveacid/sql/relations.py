"""What follows the name of a table in a query: options of reading it, a sample of its buckets."""

from __future__ import annotations

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.expressions import BucketSample
from hiveacid.statements.values import READ_OPTIONS


def read_option(cursor: Cursor) -> str | None:
    """'name'='true' or 'false' after a table's name: the name, where it is true."""
    name = cursor.string().lower()
    if name not in READ_OPTIONS:
        raise UnsupportedError(
            f"option {name!r} of a table in a query is not supported",
            note=f"There are {' and '.join(map(repr, READ_OPTIONS))}.",
        )
    cursor.expect("=")
    return name if cursor.string().lower() == "true" else None


def bucket_sample(cursor: Cursor) -> BucketSample | None:
    """TABLESAMPLE (BUCKET x OUT OF y [ON columns]), if it is there."""
    if not cursor.accept("TABLESAMPLE", "(", "BUCKET"):
        return None
    number = cursor.integer("table sample")
    cursor.expect("OUT", "OF")
    count = cursor.integer("table sample")
    if not 1 <= number <= count:
        raise cursor.error("the bucket of a sample is one of those that it is out of")
    columns: tuple[str, ...] = ()
    if cursor.accept("ON"):
        if cursor.key == "RAND":
            raise UnsupportedError(
                "TABLESAMPLE (BUCKET ... ON rand()) is not supported",
                note="TABLESAMPLE (10 PERCENT), or (100 ROWS), takes rows at random.",
            )
        columns = cursor.listed(lambda one: one.small_name("table sample"))
    cursor.expect(")")
    return BucketSample(number, count, columns)
