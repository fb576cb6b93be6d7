"""``attach`` and ``detach``: tables change the metastore, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

import hiveacid
from hiveacid.cli.output import to_json
from hiveacid.cli.service import open_metastore
from hiveacid.client import DEFAULT_DATABASE
from hiveacid.session import Session

_NO_EMBEDDED = {"hiveacid.compactor.auto": "off"}


def _session(url: str, warehouse: str | None) -> Session:
    if warehouse is None:
        with open_metastore(url) as metastore:
            warehouse = metastore.get_database(DEFAULT_DATABASE).location
    return hiveacid.connect(None, url, warehouse=warehouse, settings=_NO_EMBEDDED)


def attach(
    url: str,
    path: str,
    *,
    warehouse: str | None,
    name: str,
    valid_write_ids: str | None,
    valid_txns: str | None,
    accept_all_write_ids: bool,
    schema: str | None,
    partitioned_by: str | None,
    properties: Mapping[str, str],
) -> None:
    """Take a table over and print its columns.

    Raises:
        AcidError: as ``Session.attach``.
    """
    with _session(url, warehouse) as session:
        table = session.attach(
            path,
            name=name,
            valid_write_ids=valid_write_ids,
            valid_txns=valid_txns,
            accept_all_write_ids=accept_all_write_ids,
            schema=schema,
            partitioned_by=[] if partitioned_by is None else partitioned_by.split(","),
            properties=properties,
        ).definition
    columns = ", ".join(f"{column.name} {column.type}" for column in table.all_columns)
    print(f"{table.name} at {table.location}: {columns}")


def detach(url: str, table: str, *, as_json: bool) -> None:
    """Print where the files are, the lists, and the statement that attaches the table again.

    Raises:
        AcidError: as ``Session.detach``.
    """
    with _session(url, None) as session:
        found = session.detach(table)
    facts = {
        "location": found.location,
        "valid_write_ids": found.valid_write_ids,
        "valid_txns": found.valid_txns,
        "create_table": found.create_table,
    }
    if as_json:
        print(to_json(facts))
        return
    for name, text in facts.items():
        if text is not None:
            print(f"{name}: {text}")
