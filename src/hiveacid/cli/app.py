"""Commands of their own: ``sql``, ``stream``, ``demo``; others come with their modules' import."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from hiveacid.cli import administration, files, health
from hiveacid.cli.output import Format, app, format_option, metastore_option, pairs, required

__all__ = ["administration", "app", "files", "health"]


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
        with opened:
            text = opened.read()
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
@click.argument("table")
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
@click.option("--commit-s", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option("--rejected", metavar="TABLE", help="For lines that do not fit; else they end it.")
@metastore_option
def stream(table: str, url: str | None, partition: str, **options: Any) -> None:
    """Insert the lines of the standard input into TABLE, committed every so often."""
    from hiveacid.cli import query

    query.stream(required(url), table, sys.stdin.buffer, partition=partition, **options)


@app.command()
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
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
    type=click.FloatRange(min=0),
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
