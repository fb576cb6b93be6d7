"""What changed in a table: ``changes``."""

from __future__ import annotations

import click

from hiveacid.cli.output import Format, app, json_option, metastore_option, open_session, print_rows


@app.command()
@click.argument("table")
@click.option("--since", type=click.IntRange(0), required=True, help="After this version.")
@click.option("--until", type=click.IntRange(0), help="Up to this version; else all.")
@click.option("--key", metavar="COLUMNS", help="Pair updates by these, with commas between.")
@click.option("--deduplication", metavar="MODE", default="dropCarryovers", show_default=True)
@metastore_option
@json_option
def changes(
    table: str,
    since: int,
    until: int | None,
    key: str | None,
    deduplication: str,
    url: str | None,
    as_json: bool,
) -> None:
    """Print what changed in TABLE between two versions (write ids)."""
    names = None if key is None else key.split(",")
    with open_session(url) as session:
        found = session.table(table).changes(
            since=since, until=until, key=names, deduplication=deduplication
        )
    rows = (tuple(row.values()) for row in found.to_pylist())
    print_rows(found.schema.names, rows, form=Format.JSON if as_json else Format.TABLE)
