"""Times (in UTC), durations, sizes, decimals and tables as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from decimal import Decimal
from html import escape
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def decimal_text(value: Decimal) -> str:
    """All digits of a decimal, without zeros at the end, as Hive writes it: 1.5 for 1.50, 0 for
    -0.00.
    """
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def moment(epoch_ms: int | None, *, unit: str = "seconds") -> str | None:
    """A time to the second, or to another unit as ``datetime.isoformat`` calls it; None stays None.

    Example:
        >>> moment(1_700_000_000_123), moment(1_700_000_000_123, unit="milliseconds")
        ('2023-11-14 22:13:20', '2023-11-14 22:13:20.123')
    """
    if epoch_ms is None:
        return None
    return at(epoch_ms).replace(tzinfo=None).isoformat(" ", unit)


def at(epoch_ms: int) -> datetime:
    """The time, in UTC."""
    whole, rest_ms = divmod(epoch_ms, 1000)
    return datetime.fromtimestamp(whole, timezone.utc).replace(microsecond=rest_ms * 1000)


def duration(elapsed_ms: int | None) -> str | None:
    """A length of time in its two largest units; None stays None.

    Example:
        >>> duration(3_725_000), duration(250), duration(59_900)
        ('1 h 2 min', '250 ms', '59 s')
    """
    if elapsed_ms is None:
        return None
    if elapsed_ms < 1_000:
        return f"{elapsed_ms} ms"
    left, parts = elapsed_ms // 1000, []
    for seconds, unit in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def size(size_bytes: int | None) -> str | None:
    """A number of bytes; None stays None.

    Example:
        >>> size(999), size(5_300_000), size(20 * 1024 * 1024)
        ('999 bytes', '5.1 MiB', '20 MiB')
    """
    if size_bytes is None:
        return None
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    power = min((size_bytes.bit_length() - 1) // 10, len(_SIZES))
    amount = size_bytes / 1024**power
    return f"{amount:.{0 if amount >= 10 else 1}f} {_SIZES[power - 1]}"


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as HTML; None is NULL.

    Example:
        >>> html_table(["a"], [["<"], [None]])
        '<table><tr><th>a</th></tr><tr><td>&lt;</td></tr><tr><td>NULL</td></tr></table>'
    """
    lines = [_html_row("th", names), *(_html_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _html_row(tag: str, cells: Iterable[object]) -> str:
    texts = ("NULL" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"


class HtmlFields:
    """A dataclass that notebooks show as a table of its fields, those that its repr shows."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown = [one.name for one in fields(self) if one.repr]  # type: ignore[arg-type]
        return html_table(("", type(self).__name__), [(one, getattr(self, one)) for one in shown])
