"""What changed in a table: ``changes``."""

from __future__ import annotations

from typing import Any

import click

from hiveacid.cli.output import Format, app, json_option, metastore_option, open_session, print_rows


@app.command()
@click.argument("table")
@click.option("--since", type=click.IntRange(0), help="After this version.")
@click.option("--until", type=click.IntRange(0), help="Up to this version; else all.")
@click.option("--key", metavar="COLUMNS", help="Pair updates by these, with commas between.")
@click.option("--deduplication", metavar="MODE", default="dropCarryovers", show_default=True)
@click.option("--consumer", metavar="NAME", help="Go on from where it has read to.")
@click.option("--retain", type=float, metavar="DAYS", help="How long it may stay away: 7.")
@metastore_option
@json_option
def changes(
    table: str,
    since: int | None,
    until: int | None,
    key: str | None,
    deduplication: str,
    consumer: str | None,
    retain: float | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Print what changed in TABLE between two versions (write ids). A consumer moves once all is
    printed; --since is where a new one begins.
    """
    asked: dict[str, Any] = {
        "since": since,
        "until": until,
        "key": None if key is None else key.split(","),
        "deduplication": deduplication,
        "consumer": consumer,
        "retain": retain,
    }
    form = Format.JSON if as_json else Format.TABLE
    with open_session(url) as session:
        if consumer is None:
            _print(session.table(table).changes(**asked), form)
            return
        with session.transaction() as txn:
            _print(txn.table(table).changes(**asked), form)


def _print(found: Any, form: Format) -> None:
    rows = (tuple(row.values()) for row in found.to_pylist())
    print_rows(found.schema.names, rows, form=form)
