"""The group of commands, the options that several share, how errors are spelled, and how rows are
printed: as a table, as CSV or as JSON lines.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

import hiveacid
from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.layout.directories import parse_partition_name
from hiveacid.model.readable import duration, moment
from hiveacid.model.tables import TableName

if TYPE_CHECKING:
    from hiveacid.metastore.connect import SqlMetastore
    from hiveacid.session import Session


class Format(Enum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_rows(names: Sequence[str], rows: Iterable[Sequence[object]], *, form: Format) -> None:
    """Print rows of Python values; NULL is ``NULL`` in a table, empty in CSV and null in JSON.

    Raises:
        InvalidInputError: columns have the same name, of which an object of JSON has one.
    """
    if form is Format.JSON:
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InvalidInputError(
                f"Several columns are called {twice}, and an object of JSON has one of them",
                note="Name them: SELECT ... AS ...",
                column=twice,
            )
        for row in rows:
            print(to_json(dict(zip(names, row, strict=True))))
    elif form is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(["" if cell is None else _text(cell) for cell in row] for row in rows)
    else:
        # Widths come of so many rows, as Beeline's: the first need not wait for the last.
        left = iter(rows)
        _print_table(names, list(islice(left, _TABLE_ROWS)))
        while more := list(islice(left, _TABLE_ROWS)):
            _print_table(names, more)


def print_answer(names: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool) -> None:
    """Print rows as one JSON list of objects, times in epoch milliseconds, or as a table, times and
    durations for people.
    """
    if as_json:
        plain = ([_epoch_ms(cell) for cell in row] for row in rows)
        print(to_json([dict(zip(names, row, strict=True)) for row in plain], indent=1))
        return
    shown = [_SHOWN_AS.get(name) for name in names]
    told = ([_told(cell, as_) for cell, as_ in zip(row, shown, strict=True)] for row in rows)
    print_rows(names, tuple(told), form=Format.TABLE)


def print_report(found: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a value of ours as JSON, or the lines that say it to people."""
    for line in [to_json(found, indent=1)] if as_json else lines:
        print(line)


def _epoch_ms(cell: object) -> object:
    """The cell; a time, which has its zone, as epoch milliseconds."""
    if not isinstance(cell, datetime):
        return cell
    return (cell - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


def _told(cell: object, as_: Callable[[int], str | None] | None) -> object:
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=None).isoformat(" ", "milliseconds")
    return as_(cell) if as_ is not None and isinstance(cell, int) else cell


_TIMES: Final = (
    *("startedtime", "lastheartbeattime", "last_heartbeat", "acquired_at"),
    *("enqueuetime", "starttime", "committime"),
    *("made", "expires", "behind since", "pinned until"),
)
_SHOWN_AS: Final[Mapping[str, Callable[[int], str | None]]] = {
    **dict.fromkeys(_TIMES, moment),
    **dict.fromkeys(("duration", "pin age"), duration),
}
"""Columns of epoch milliseconds, and of milliseconds."""


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON text; decimals and timestamps as text, binary as hexadecimal digits."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=indent)


_TABLE_ROWS: Final = 1_000


def _print_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for place, name in enumerate(names):
        cells = [row[place] for row in rows if row[place] is not None]
        numeric = bool(cells) and all(isinstance(cell, int | float | Decimal) for cell in cells)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row))
    print_whole(table)


def print_whole(shown: Any) -> None:
    """Print a table or a tree of rich's, into a file or a pipe as wide as it is."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        width = Console(width=10_000).measure(shown).maximum
        console = Console(width=width, highlight=False)
    console.print(shown)


def _text(value: object) -> str:
    return "NULL" if value is None else _shown(_plain(value))


def _shown(plain: object) -> str:
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


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
        return {_shown(_plain(key)): _plain(item) for key, item in value.items()}
    if hasattr(value, "asDict"):  # a row of Spark: a struct
        return _plain(value.asDict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain_of_ours(value)


def _plain_of_ours(value: object) -> object:
    """Of a value of ours: a name, a state, or fields."""
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value) and not isinstance(value, type | TableName):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return str(value)


_PHRASES: Final = (
    (r"hiveacid\.connect with a warehouse", "`hiveacid sql --warehouse DIR`"),
    (r"hiveacid\.connect\(spark, url, warehouse='([^']*)'\)", r"give --warehouse \1"),
    (r"Please, fix `args` and provide .*", "Give it by --arg NAME=VALUE."),
    (r"leave warehouse out", "leave --warehouse out"),
    (r"partition=\{\"(\w+)\": ([^}]+)\}", r"--partition \1=\2"),
)
"""What errors say in Python, and how a command line says it."""
_NOT_IN_SQL: Final = (
    (r"acid\.attach\b", "`hiveacid attach`"),
    (r"goes with a schema, which", "goes with --schema, which"),
    (r"; in SQL the table properties .*", "."),
    (r"CLUSTERED INTO and ORDER BY are for a", "--buckets and --order-by are for a"),
    (r"^SHOW LOCKS$", "`hiveacid locks` lists them"),
)
"""The same of what statements say in SQL, for commands that are not written in it."""


def named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Of an argument, as click calls it: the name of a table, or a place.

    Raises:
        click.BadParameter: it is empty, as a variable of the shell is that is not set.
    """
    if value == "":
        raise click.BadParameter("it is empty", ctx, param)
    return value


class Amount(click.FloatRange):
    """A number in a range; NaN, which click lets through each, is in none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, or out of the range.
        """
        found = float(super().convert(value, param, ctx))
        if found != found:
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


_INTERRUPTED: Final = 130
"""The exit status of what Ctrl-C ended, as shells have it."""


class Commands(click.Group):
    """Spells errors of ours as a command line does."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Raises:
            AcidError: as the command does.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("error: interrupted", file=sys.stderr)
            ctx.exit(_INTERRUPTED)
        except AcidError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            names = {} if command is None else _options(command)
            in_sql = ctx.invoked_subcommand == "sql"
            error.message = spelled(error.message, names, in_sql=in_sql)
            if hasattr(error, "__notes__"):
                notes = (spelled(note, names, in_sql=in_sql) for note in error.__notes__)
                error.__notes__ = list(notes)
            raise


def _options(command: click.Command) -> dict[str, str]:
    """The options of a command, and of those below it, by the name of their parameter."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    found = {name: text for one in below for name, text in _options(one).items()}
    for param in command.params:
        if isinstance(param, click.Option) and param.name is not None:
            found[param.name] = max(param.opts, key=len)
    return found


def spelled(text: str, options: Mapping[str, str], *, in_sql: bool) -> str:
    """A message with options in place of arguments of Python: ``accept_all_write_ids=True`` is
    ``--accept-all-write-ids``.
    """
    for pattern, command in _PHRASES if in_sql else (*_NOT_IN_SQL, *_PHRASES):
        text = re.sub(pattern, command, text)
    for name, option in options.items():
        if not in_sql:
            given = r"=(?:True|\.\.\.|(?= ))"  # a name of one word alone may be any word
            tail = rf"(?:{given})?(?![\w.=])" if "_" in name else given
            text = re.sub(rf"(?<![\w.-]){name}{tail}", option, text)
    return text


metastore_option = click.option(
    "--metastore",
    "url",
    envvar="HIVEACID_METASTORE",
    metavar="URL",
    help="Where the metastore is, as sqlite:///path [env: HIVEACID_METASTORE].",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.TABLE.value,
    show_default=True,
    help="How rows are printed; json is one object a line.",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hiveacid.__version__, prog_name="hiveacid")
def app() -> None:
    """Apache Hive's ACID tables: SQL, and a look into tables, transactions and locks."""


def pairs(texts: tuple[str, ...], *, option: str) -> dict[str, str]:
    """``NAME=VALUE`` texts by name."""
    for text in texts:
        if "=" not in text.lstrip("="):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=f"'{option}'")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def partition_spec(name: str) -> dict[str, str | None]:
    """The values of a partition by its columns.

    Raises:
        InvalidInputError: it is no name of a partition.
    """
    found = parse_partition_name(name)
    if found is None:
        raise InvalidInputError(
            f"--partition is p=x or p=x/q=y, as SHOW PARTITIONS prints it, not {name!r}"
        )
    return dict(found)


def required(url: str | None) -> str:
    """The URL of a metastore, for a command that cannot do without."""
    if not url:
        raise click.UsageError("which metastore? give --metastore or set HIVEACID_METASTORE")
    return url


def open_metastore(url: str | None) -> SqlMetastore:
    """The metastore at ``url``, which must exist: to look at one never makes one.

    Raises:
        NotFoundError: there is none.
        MetastoreError: it is not a metastore of ours.
    """
    from hiveacid.clock import SystemClock
    from hiveacid.metastore.connect import Opening, connect

    return connect(required(url), clock=SystemClock(), opening=Opening.EXISTING)


@contextmanager
def open_session(url: str | None, **settings: str) -> Iterator[Session]:
    """A session on a metastore that is there; a command is over too soon to compact in the
    background.
    """
    chosen = {**settings, "hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, required(url), settings=chosen) as session:
        yield session
