"""What is done with a session: ``sql``, ``stream``, ``demo``; how tables are and were, and erasure:
``describe``, ``history``, ``doctor``, ``purge``. Others come with their modules' import.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hiveacid.cli import administration, files
from hiveacid.cli.output import (
    Amount,
    Format,
    app,
    format_option,
    json_option,
    metastore_option,
    named,
    open_session,
    pairs,
    print_answer,
    print_report,
    required,
    to_json,
)
from hiveacid.model.readable import moment, size
from hiveacid.model.tables import LONG_MAX

if TYPE_CHECKING:
    from hiveacid.compaction.detail import Finding, TableDetail


__all__ = ["administration", "app", "files"]


@app.command()
@click.option("-e", "--execute", "text", metavar="TEXT", help="Statements, separated by ';'.")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A file of statements; - is the standard input.",
)
@format_option
@metastore_option
@click.option(
    "--warehouse",
    envvar="HIVEACID_WAREHOUSE",
    metavar="DIR",
    help="Where the tables of a new metastore go; one that is there knows [env: "
    "HIVEACID_WAREHOUSE].",
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of :NAME in the text; a number, true, null, [1, 2] as in JSON, else a string.",
)
@click.option(
    "--hivevar",
    "-d",
    "variables",
    multiple=True,
    metavar="NAME=TEXT",
    help="What ${NAME} and ${hivevar:NAME} stand for in the text.",
)
@click.option(
    "--hiveconf", "texts", multiple=True, metavar="NAME=TEXT", help="A setting, as in SET."
)
def sql(
    text: str | None,
    path: Path | None,
    form: str,
    url: str | None,
    warehouse: str | None,
    args: tuple[str, ...],
    variables: tuple[str, ...],
    texts: tuple[str, ...],
) -> None:
    """Run SQL statements; Spark starts only for those that need it."""
    if (text is None) == (path is None):
        raise click.UsageError("give the statements with either -e or -f")
    if path is not None:
        opened = click.open_file(str(path), encoding="utf-8")
        try:
            with opened:
                text = opened.read()
        except UnicodeDecodeError as error:
            raise click.UsageError(f"-f {path} is not text in UTF-8: {error.reason}") from error
    from hiveacid.cli import query

    settings = pairs(texts, option="--hiveconf")
    hivevars = pairs(variables, option="--hivevar")
    query.run(
        text or "",
        form=Format(form),
        url=required(url),
        warehouse=warehouse,
        settings=settings | {f"hivevar:{name}": value for name, value in hivevars.items()},
        args={name: _json(value) for name, value in pairs(args, option="--arg").items()},
    )


@app.command()
@click.argument("table", callback=named)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "delimited", "regex"]),
    default="json",
    show_default=True,
    help="What a line is.",
)
@click.option("--delimiter", default=",", show_default=True, help="Of delimited lines.")
@click.option("--pattern", default="", help="Regular expression; its groups are the columns.")
@click.option("--partition", default="", metavar="P=X/Q=Y", help="Values that lines do not have.")
@click.option("--commit-rows", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--commit-s", type=Amount(0, 1e9), default=1.0, show_default=True)
@click.option("--rejected", metavar="TABLE", help="For lines that do not fit; else they end it.")
@metastore_option
def stream(table: str, url: str | None, partition: str, **options: Any) -> None:
    """Insert the lines of the standard input into TABLE, committed every so often."""
    from hiveacid.cli import query

    if sys.stdin is None:  # as of a process that was started with <&-
        raise click.UsageError("there is no standard input")
    query.stream(required(url), table, sys.stdin.buffer, partition=partition, **options)


@app.command()
@click.option(
    "--scale",
    type=Amount(min=0, min_open=True),
    default=0.1,
    show_default=True,
    help="TPC-H scale factor; 1 is 6 million lineitem rows.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    show_default=True,
    help="Where input, warehouse and metastore go; a former demo there is replaced.",
)
@click.option(
    "--stream",
    "stream_s",
    type=Amount(0, 1e9),
    default=0,
    metavar="SECONDS",
    help="Stream the changes and the lines besides, for so long.",
)
def demo(scale: float, directory: Path, stream_s: float) -> None:
    """Load, merge, update, delete and query TPC-H tables, and prove the result with DuckDB."""
    from hiveacid import demo as program

    if not program.run(scale=scale, directory=directory, stream_s=stream_s):
        raise click.exceptions.Exit(1)


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return text


@app.command()
@metastore_option
def metrics(url: str | None) -> None:
    """Print the metrics of a metastore as Prometheus reads them, bytes kept by reason included."""
    from hiveacid.compaction.metrics import metrics_text

    with open_session(url) as session:
        print(metrics_text(session.client), end="")


@app.command()
@click.argument("table", callback=named)
@metastore_option
@json_option
def describe(table: str, url: str | None, as_json: bool) -> None:
    """Say what TABLE holds, what keeps files that nobody reads any more, and what to do."""
    with open_session(url) as session:
        found = session.table(table).detail()
    lines = [
        *(f"{name + ':':20}{text}" for name, text in _lines(found)),
        *(f"\n{o.kind}: {o.evidence}\n  {o.risk}\n  {o.command}" for o in found.findings),
    ]
    print_report(found, lines, as_json=as_json)


@app.command()
@click.argument("table", callback=named)
@click.option("--limit", type=click.IntRange(1, LONG_MAX), metavar="N", help="Only the last N.")
@metastore_option
@json_option
def history(table: str, limit: int | None, url: str | None, as_json: bool) -> None:
    """List the commits that wrote to TABLE, the last first: when, who, what, how many rows."""
    from hiveacid.statements.history import DescribeHistory, history_listing

    with open_session(url) as session:
        name = session.table(table).name
        found = history_listing(session.client.metastore, DescribeHistory(name, limit))
    print_answer(found.columns, found.rows, as_json=as_json)


@app.command("explain-row")
@click.argument("table", callback=named)
@click.option("--where", metavar="TEXT", required=True, help="Which rows: a condition.")
@click.option("--key", metavar="COLUMNS", help="These tell a row, with commas between.")
@metastore_option
@json_option
def explain_row(table: str, where: str, key: str | None, url: str | None, as_json: bool) -> None:
    """List which transactions inserted, updated and deleted rows of TABLE."""
    names = None if key is None else key.split(",")
    with open_session(url) as session:
        found = session.explain_row(table, where=where, key=names)
    if as_json:
        print(to_json(found, indent=1))
        return
    listing = found.listing()
    print_answer(listing.columns, listing.rows, as_json=False)
    if found.since:
        print(f"what was before version {found.since} cannot be told")


@app.command()
@click.argument("transaction", type=click.IntRange(1))
@click.option("--key", metavar="COLUMNS", help="These tell a row, with commas between.")
@metastore_option
@json_option
def undo(transaction: int, key: str | None, url: str | None, as_json: bool) -> None:
    """Take back what TRANSACTION did, in all its tables; refused where rows have changed since."""
    names = None if key is None else key.split(",")
    with open_session(url) as session:
        found = session.undo(transaction, key=names)
    columns = ("table", "deleted", "inserted", "version")
    rows = ((one.table, one.deleted, one.inserted, int(one.write_id)) for one in found)
    print_answer(columns, tuple(rows), as_json=as_json)


@app.command()
@click.argument("table", callback=named, required=False)
@metastore_option
@json_option
def tags(table: str | None, url: str | None, as_json: bool) -> None:
    """List the tags of TABLE, or of all tables: which version each shows, and until when."""
    _print_pins("tag", table, url, as_json=as_json)


@app.command()
@click.argument("table", callback=named, required=False)
@metastore_option
@json_option
def consumers(table: str | None, url: str | None, as_json: bool) -> None:
    """List who reads the changes of TABLE, or of all tables, by a name: how far, and until when its
    files are kept.
    """
    _print_pins("consumer", table, url, as_json=as_json)


def _print_pins(kind: str, table: str | None, url: str | None, *, as_json: bool) -> None:
    from hiveacid.model.history import PinKind
    from hiveacid.statements.history import ShowPins, pin_rows

    with open_session(url) as session:
        name = None if table is None else session.table(table).name
        names, rows = pin_rows(session.client, ShowPins(PinKind(kind), name))
    print_answer(names, rows, as_json=as_json)


@app.command()
@click.argument("table", callback=named)
@click.option("--where", metavar="TEXT", help="Delete these rows first; else no row is deleted.")
@click.option("--wait", type=click.FloatRange(0), metavar="S", help="For who needs the files.")
@click.option("--drop-pins", is_flag=True, help="Drop the tags and consumers in the way.")
@metastore_option
@json_option
def purge(
    table: str,
    where: str | None,
    wait: float | None,
    drop_pins: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Erase the deleted rows of TABLE from its files, and prove it."""
    with open_session(url) as session:
        found = session.table(table).purge(where=where, wait=wait, drop_pins=drop_pins)
    lines = [
        f"{found.table}: {found.rows_deleted} rows deleted, {len(found.removed)} files removed",
        f"{found.rows_found} of {found.rows_sought} deleted rows in {found.rows_decoded} left",
        *(f"forgotten: {text}" for text in found.cleaned),
        *(f"stays: {text}" for text in found.named),
        f"report: {found.report}",
    ]
    print_report(found, lines, as_json=as_json)


@app.command()
@click.option("--fix", is_flag=True, help="Mend what needs no decision.")
@metastore_option
@json_option
def doctor(fix: bool, url: str | None, as_json: bool) -> None:
    """Look for what is wrong, or will be, in a metastore; exit status 1 where something is."""
    with open_session(url) as session:
        found = session.doctor(fix=fix)
    lines = [
        *(f"mended: {_told(one)}" for one in found.mended),
        *(f"{_told(one)}\n  risk: {one.risk}\n  {one.command}" for one in found.findings),
        *(f"{one.kind}: {one.risk}\n  {one.command}" for one in found.advice),
        f"{len(found.findings)} findings, {len(found.mended)} mended",
    ]
    print_report(found, lines, as_json=as_json)
    if found.findings:
        raise click.exceptions.Exit(1)


def _told(finding: Finding) -> str:
    where = "" if finding.table is None else f" {finding.table}"
    partition = "" if finding.partition is None else f" {finding.partition}"
    return f"{finding.kind}{where}{partition}: {finding.evidence}"


def _lines(found: TableDetail) -> Iterator[tuple[str, str]]:
    """What is worth a line, with sizes and times for people."""
    from hiveacid.health import compaction_due

    yield "table", f"{found.name} at {found.location}"
    parts = f", {found.partitions} partitions by {', '.join(found.partition_columns)}"
    yield "format", found.format + (parts if found.partition_columns else "")
    yield "rows", "not known" if found.rows is None else str(found.rows)
    deleted = "not counted" if found.deleted_rows is None else str(found.deleted_rows)
    yield "deleted rows", f"{deleted}, in {found.delete_deltas} delete deltas"
    yield "files", f"{found.files}, {size(found.size_bytes)}, {found.deltas} deltas"
    yield "small files", str(found.small_files)
    if found.bucket_skew is not None:
        yield "largest bucket", f"{found.bucket_skew} x the average"
    yield "kept files", f"{found.kept_files}, {size(found.kept_bytes)}"
    for one in found.holders:
        since = "" if one.since_ms is None else f" since {moment(one.since_ms)}"
        until = "" if one.until_ms is None else f" until {moment(one.until_ms)}"
        yield "kept by", f"{one.what}{since}{until}: {one.mend}"
    yield "last write", moment(found.last_write_ms) or "not known"
    yield "last compaction", moment(found.last_compaction_ms) or "none"
    yield "compaction", compaction_due(found) or "nothing to look at"
