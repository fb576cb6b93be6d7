"""Rows as a table, as CSV or as JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum


class Format(Enum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_rows(names: Sequence[str], rows: Iterable[Sequence[object]], *, form: Format) -> None:
    """Print rows of Python values; NULL is ``NULL`` in a table, empty in CSV and null in JSON."""
    if form is Format.JSON:
        for row in rows:
            print(to_json(dict(zip(names, row, strict=True))))
    elif form is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_csv_text(value) for value in row] for row in rows)
    else:
        _print_table(names, rows)


def print_answer(names: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool) -> None:
    """Print rows as a table, or as one JSON list of objects."""
    if as_json:
        print(to_json([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    else:
        print_rows(names, rows, form=Format.TABLE)


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON text; decimals and timestamps as text, binary as hexadecimal digits."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=indent)


def _print_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table()
    for place, name in enumerate(names):
        cells = [row[place] for row in rows if row[place] is not None]
        numeric = bool(cells) and all(isinstance(cell, int | float | Decimal) for cell in cells)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row))
    console = Console()
    if not console.is_terminal:
        # Into a file or a pipe a table is as wide as it is.
        console = Console(width=Console(width=10_000).measure(table).maximum)
    console.print(table)


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _csv_text(value: object) -> str:
    return "" if value is None else _text(value)


def _plain(value: object) -> object:
    """Only what JSON knows."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date | timedelta):
        return str(value)
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "asDict"):  # a row of Spark: a struct
        return _plain(value.asDict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def _key(key: object) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
