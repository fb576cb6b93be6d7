"""What Hive 4.1 answered for columns whose type was changed: ``data/type_changes.tsv``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.session import Session
from hiveacid.statements.ddl.columns import check_type_change
from hiveacid.storage.arrow_types import arrow_type

PATH = Path(__file__).parent / "data" / "type_changes.tsv"
ERROR = "error"


class TypeChange(NamedTuple):
    """Types of file and table, and by value in the file what Hive showed (None where it refused
    to read the column).
    """

    found: str
    wanted: str
    answers: dict[str, str] | None


def type_changes() -> Iterator[TypeChange]:
    """All pairs of types."""
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for line in PATH.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            found, wanted, value, answer = line.split("\t")
            pairs.setdefault((found, wanted), {})[value] = answer
    for (found, wanted), answers in pairs.items():
        refused = ERROR in answers.values()
        yield TypeChange(found, wanted, None if refused else answers)


def stored(text: str, kind: str) -> pa.Array:
    """One value of a file, as an Arrow array."""
    if kind == "timestamp":
        nanoseconds = 1700 < int(text[:4]) < 2200
        text = text if nanoseconds else text[:26]
        return pa.array([text]).cast(pa.timestamp("ns" if nanoseconds else "us"))
    return pa.array([value(text, kind)], arrow_type(parse_type(kind)))


def value(text: str, kind: str) -> Any:
    """A text of the table of answers as a value of Python."""
    family = kind.partition("(")[0]
    if text == "NULL":
        return None
    if family == "boolean":
        return text.lower() == "true"
    if family in ("tinyint", "smallint", "int", "bigint"):
        return int(text)
    if family == "decimal":
        return Decimal(text)
    if family == "float":
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if family == "double":
        return float(text)
    if family == "date":
        return date.fromisoformat(text)
    if family == "binary":
        return text.encode()
    if family == "char":
        return text.ljust(int(kind[5:-1]))
    return text


def same(read: pa.Array, answer: str, kind: str) -> bool:
    """Whether the one value read is Hive's answer; of timestamps to the unit that was read."""
    found, wanted = read[0].as_py(), value(answer, kind)
    if kind == "timestamp":
        text = read.cast(pa.string())[0].as_py()
        cut = len(text) if text else 0
        shown = answer if "." in answer else f"{answer}."
        return wanted is None if text is None else shown.ljust(cut, "0")[:cut] == text.ljust(cut)
    if kind.startswith("char") and found is not None and wanted is not None:
        return bool(found.rstrip(" ") == wanted.rstrip(" "))  # Spark's have no blanks
    if found != found:
        return bool(wanted != wanted)
    return bool(found == wanted)


def changed_table(acid: Session, properties: str) -> dict[str, TypeChange]:
    """A table ``changed`` of a column for each change that ALTER TABLE allows, whose one file was
    written before; the changes by the name of their column. Row ``n`` has the n-th values.
    """
    changes = {f"c{n}": change for n, change in enumerate(filter(_is_allowed, type_changes()))}
    columns = ", ".join(f"{name} {change.found}" for name, change in changes.items())
    acid.sql(f"create table changed (n int, {columns}) {properties}")
    most = max(len(change.answers or ()) for change in changes.values())
    arrays = {"n": pa.array(range(most), pa.int32())}
    for name, change in changes.items():
        parts = [stored(text, change.found) for text in change.answers or ()]
        unit = arrow_type(parse_type(change.found))
        parts = [part.cast(unit, safe=False) for part in parts]
        arrays[name] = pa.concat_arrays([*parts, pa.nulls(most - len(parts), unit)])
    acid.table("changed").write_arrow(pa.table(arrays))
    for name, change in changes.items():
        if change.found != change.wanted:
            acid.sql(f"alter table changed change {name} {name} {change.wanted}")
    return changes


def _is_allowed(change: TypeChange) -> bool:
    old, new = (Column("c", parse_type(kind)) for kind in (change.found, change.wanted))
    try:
        check_type_change(old, new)
    except InvalidInputError:
        return False
    return True


def wrong_answers(rows: pa.Table, changes: dict[str, TypeChange]) -> dict[str, Any]:
    """What was read otherwise than Hive reads it; ``rows`` are those of the table in order."""
    wrong = {}
    for name, change in changes.items():
        read = rows.column(name).combine_chunks()
        for n, (text, answer) in enumerate((change.answers or {}).items()):
            cut = change.found == "timestamp" and len(text) > 26  # was written in microseconds
            if not cut and not same(read.slice(n, 1), answer, change.wanted):
                wrong[f"{change.found} -> {change.wanted}: {text}"] = read[n].as_py()
    return wrong
