"""What Hive left of our tables goes back below them: SELECT gives Hive's rows, DML goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.answers import HiveAnswer, differences
from tests.interop.hive_tool import HiveTool
from tests.interop.kinds import Kind
from tests.interop.reading_back import check_scan
from tests.interop.we_wrote import Scope, Writer, Written, answer_of, our_select, states

from hiveacid.layout.directories import parse_partition_name
from hiveacid.model.tables import Partition, TableName
from hiveacid.session import Session

HOLES_S = 1.5
"""Longer than ids that were left out, just below a new transaction, count as open."""


def back_home(
    writer: Writer, tool: HiveTool, tables: Sequence[Written], scope: Scope
) -> Iterator[tuple[Kind, str, list[str]]]:
    """Kind, what was compared, how it differs."""
    with writer.sessions() as (acid, _):
        for written in tables:
            answer = None
            for step in states(scope):
                answer = answer_of(tool, written.kind, step)
                if answer is not None and written.kind.stored_as == "orc":
                    found = list(check_scan(writer.spark, answer))
                    yield written.kind, f"scan ({step})", found
            if answer is not None:
                found = list(_continue(acid, written, answer))
                yield written.kind, "our table with Hive's files, DML on top", found


def _continue(acid: Session, written: Written, answer: HiveAnswer) -> Iterator[str]:
    name = TableName("default", written.table)
    metastore = acid.client.metastore
    place = Path(metastore.get_table(name).location)
    shutil.rmtree(place)
    shutil.copytree(answer.data, place)
    _know_ids(metastore, name, answer)
    known = {partition.values for partition in metastore.list_partitions(name)}
    for text in answer.meta["partitions"]:
        values = tuple(value for _, value in parse_partition_name(text) or ())
        if values not in known:
            metastore.add_partitions(name, [Partition(values, str(place / text))])
    kind, shape = written.kind, written.shape
    yield from differences(our_select(acid, kind, written.table, shape), answer.rows(as_spark=True))
    first = shape.columns[0][0]
    even = [row for row in written.later if row[0] != "NULL" and int(row[0]) % 2 == 0]
    if kind.has_row_ids:
        acid.sql(f"delete from {written.table} where {first} % 2 = 0")
        wanted = [row for row in written.later if row not in even]
    else:
        names = ", ".join(f"`{column}`" for column, _ in shape.all)
        acid.sql(
            f"insert into {written.table} select {names} from {written.table} where {first} % 2 = 0"
        )
        wanted = written.later + even
    got = written.values(our_select(acid, kind, written.table, shape))
    yield from differences(got, sorted(wanted))


def _know_ids(metastore: Any, name: TableName, answer: HiveAnswer) -> None:
    """Our metastore counts Hive's transactions and write ids as its own."""
    hive_hwm = int(answer.meta["valid_txn_list"].split(":")[0])
    if _committed_txn(metastore) < hive_hwm:
        metastore.seed_txn_id(hive_hwm + 1)
        _committed_txn(metastore)
        time.sleep(HOLES_S)
    wanted = int(answer.meta["valid_write_id_list"].split(":")[1])
    while metastore.valid_write_ids((name,))[0].hwm < wanted:
        _committed_txn(metastore, name)


def _committed_txn(metastore: Any, table: TableName | None = None) -> int:
    (txn,) = metastore.open_txns(1, user="interop", host="localhost")
    if table is not None:
        metastore.allocate_write_ids([txn], table)
    metastore.commit_txn(txn)
    return int(txn)
