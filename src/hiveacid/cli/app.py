"""All commands: ``sql`` and ``demo``; those of the other modules come with their import."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import click

from hiveacid.cli import administration, compaction, files
from hiveacid.cli.group import app, format_option, metastore_option, pairs, required
from hiveacid.cli.output import Format

__all__ = ["administration", "app", "compaction", "files"]


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
        stream = click.open_file(str(path), encoding="utf-8")
        with stream:
            text = stream.read()
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
def demo(scale: float, directory: Path) -> None:
    """Load, merge, update, delete and query TPC-H tables, and prove the result with DuckDB."""
    from hiveacid import demo as program

    if not program.run(scale=scale, directory=directory):
        raise click.exceptions.Exit(1)


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return text
