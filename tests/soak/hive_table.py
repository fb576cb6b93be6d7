"""The table of ``tests.soak.cluster`` where real Hive wrote it: some rows for each driver, changed
and deleted, an aborted write, a compacted partition; and what Hive reads in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.interop.answers import HiveAnswer
from tests.interop.hive_tool import HiveTool, statements
from tests.interop.we_wrote import known_write_ids
from tests.soak.cluster_driver import OWN, PARTITIONS, Rows

from hiveacid.model.ids import ValidWriteIdList
from hiveacid.session import Session

ROWS: Final = 200
"""of each driver"""
FIRST: Final = 900_000
"""of the ids of a driver those from here on are Hive's"""
LIST: Final = "valid_write_id_list"
_FIRST_TXN: Final = 1_000_000
_CREATE: Final = "create table t (id bigint, v bigint) partitioned by (p int) stored as orc"
_ACID: Final = "tblproperties ('transactional'='true')"


def written(tool: HiveTool, *, drivers: int) -> HiveAnswer:
    """The table, by Hive.

    Raises:
        HiveIsMissingError: it cannot be fetched, or does not start.
        AssertionError: a statement failed.
    """
    tool.prepare()
    said = tool.run(statements(list(_writes(drivers))), "written")
    errors = [line for line in said if line.startswith("ERROR")]
    assert len(errors) == 1 and "made to fail" in errors[0], errors
    return HiveAnswer(tool.answers / "written")


def _writes(drivers: int) -> Iterator[str]:
    yield f"{_CREATE} {_ACID}"
    for driver in range(drivers):
        ids = range(driver * OWN + FIRST, driver * OWN + FIRST + ROWS)
        values = ", ".join(f"({id}, 0, {id % PARTITIONS})" for id in ids)
        yield f"insert into t values {values}"
    yield "update t set v = v + 100 where id % 7 = 0"
    yield "!compact t major p=0"
    yield "!hook fail"
    yield "insert into t select id, -1, p from t"
    yield "!hook off"
    yield "delete from t where id % 11 = 0"
    yield "!snap written t"


def taken_over(acid: Session, answer: HiveAnswer) -> Rows:
    """Makes the table one of ours, where it is; the rows that Hive says it has."""
    meta = answer.meta
    acid.attach(
        meta["location"],
        name="t",
        schema="id bigint, v bigint, p int",
        partitioned_by=["p"],
        valid_write_ids=meta[LIST],
        valid_txns=meta["valid_txn_list"],
    )
    return _rows(answer)


def read_by_hive(tool: HiveTool, acid: Session) -> Rows:
    """The table as Hive reads it once it knows our write ids.

    Raises:
        AssertionError: a statement failed, or a row is there twice.
    """
    table = acid.table("t").definition.name
    last = acid.client.metastore.valid_write_ids((table,))[0].hwm
    own = ValidWriteIdList.parse(HiveAnswer(tool.answers / "written").meta[LIST]).hwm
    known = known_write_ids({"t": range(own + 1, last + 1)}, version="4.1", first_txn=_FIRST_TXN)
    said = tool.run(statements([*known, "!snap read t"]), "read")
    errors = [line for line in said if line.startswith("ERROR")]
    assert not errors, errors
    return _rows(HiveAnswer(tool.answers / "read"))


def _rows(answer: HiveAnswer) -> Rows:
    rows = answer.rows()
    found = {int(id): int(v) for *_, id, v, _ in rows}
    assert len(found) == len(rows), "Hive reads rows twice"
    return found
