"""Tables that other metastores made: entered with their history, in one step; where tables lie.

The write ids that do not count get aborted transactions of this metastore, as Hive's would have
them (metastore.md 2.5, 2.8). A reader's watermark is the highest write id remembered, and its list
ends at the first one that is not committed where none is (metastore.md, surprises 3 and 4): so two
committed transactions come after the aborted ones, with the lowest free write id and the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import or_, select

from hiveacid.errors import InvalidInputError, no_such_table
from hiveacid.layout.takeover import Takeover
from hiveacid.metastore.api import Claim, OwnDatabase, Place
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.objects import claim_place, read_places
from hiveacid.metastore.sql.partitions import insert_partitions
from hiveacid.metastore.sql.schema import TXNS
from hiveacid.metastore.sql.tables import delete_table, insert_table
from hiveacid.metastore.sql.txns import assume_committed, highest_txn, read_open_txns
from hiveacid.metastore.sql.write_ids import (
    give_write_ids,
    insert_components,
    last_write_id,
    read_valid_write_ids,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import Partition, Table, TableName, TxnId
from hiveacid.model.transactions import OperationType, TxnState, TxnType

_T = TXNS.c
_NOT_COMMITTED: Final = select(_T.TXN_ID, _T.TXN_STATE).where(
    or_(_T.TXN_STATE == TxnState.OPEN.value, _T.TXN_STATE == TxnState.ABORTED.value)
)


class SqlTakeover(Part, OwnDatabase):
    """The part of ``OwnDatabase`` about tables of other metastores."""

    def attach_table(
        self,
        table: Table,
        partitions: Sequence[Partition],
        takeover: Takeover | None,
        *,
        claim: Claim | None = None,
    ) -> None:
        with self._db.write() as unit:
            if takeover is not None:
                unit.exclude_opens()
            insert_table(unit, table, if_not_exists=False)
            insert_partitions(unit, table.name, partitions, if_not_exists=True)
            claim_place(unit, claim)
            if takeover is not None:
                _enter_history(unit, table, takeover)

    def detach_table(
        self, name: TableName, *, but: TxnId, told: ValidWriteIdList | None = None
    ) -> tuple[ValidWriteIdList, ValidTxnList]:
        with self._db.write() as unit:
            found = read_open_txns(unit, (TxnType.READ_ONLY,))
            opened = [txn for txn in found.open if txn != but]
            txns = ValidTxnList.of(hwm=found.hwm, open=opened, aborted=found.aborted)
            last = last_write_id(unit, name)
            (valid,) = read_valid_write_ids(unit, (name,), txns, whole=True)
            whole = ValidWriteIdList.of(str(name), hwm=last, open=valid.open, aborted=valid.aborted)
            if whole == told and not delete_table(unit, name):
                raise no_such_table(name)
        return whole, txns

    def assume_committed(self, txn: TxnId) -> None:
        with self._db.write() as unit:
            unit.exclude_opens()
            assume_committed(unit, txn)

    def places(self) -> tuple[Place, ...]:
        with self._db.read() as unit:
            return read_places(unit)


def _enter_history(unit: Unit, table: Table, takeover: Takeover) -> None:
    _check_compactions(unit, table, takeover)
    assume_committed(unit, takeover.highest_txn)
    where = {"db": table.name.database, "table": table.name.table}
    write_ids = sorted({write_id for write_id, _ in takeover.aborted})
    first = highest_txn(unit) + 1
    txn_of = {write_id: TxnId(first + at) for at, write_id in enumerate(write_ids)}
    after = takeover.highest_write_id + 1
    committed = [] if not write_ids else [after] if 1 in txn_of or after == 1 else [1, after]
    txn_of |= {one: TxnId(first + len(txn_of) + at) for at, one in enumerate(committed)}
    aborted, done = TxnState.ABORTED.value, TxnState.COMMITTED.value
    # Those that are committed look old, so that nobody takes an id below for a late one.
    as_it_is, as_committed = (aborted, unit.now_ms), (done, 0)
    states = [as_committed if one in committed else as_it_is for one in txn_of]
    unit.insert(
        TXNS,
        [
            {
                "TXN_ID": txn,
                "TXN_STATE": state,
                "TXN_STARTED": at,
                "TXN_LAST_HEARTBEAT": at,
                "TXN_USER": table.owner,
                "TXN_HOST": "",
                "TXN_META_INFO": "taken over from another metastore",
            }
            for txn, (state, at) in zip(txn_of.values(), states, strict=True)
        ],
    )
    if txn_of:
        unit.dialect.set_next_txn_id(unit.channel, max(txn_of.values()) + 1)
    insert_components(
        unit,
        [
            {
                **where,
                "txn": txn_of[write_id],
                "partition": partition,
                "op": OperationType.INSERT.value,
                "write_id": write_id,
            }
            for write_id, partition in takeover.aborted
        ],
    )
    following = after + 1 if committed else after
    give_write_ids(unit, table.name, txn_of, following=following)


def _check_compactions(unit: Unit, table: Table, takeover: Takeover) -> None:
    """The transactions of another metastore whose results are read count as committed here."""
    names = {"o": "open", "a": "aborted"}
    states: dict[int, str] = dict(unit.rows(_NOT_COMMITTED))
    for txn in sorted(takeover.compactions.intersection(states)):
        raise InvalidInputError(
            f"Transaction {txn} made a compaction of {table.location}, and another transaction "
            f"{txn} of this metastore is {names[states[txn]]}: nobody would see that compaction",
            table=str(table.name),
            txn=txn,
            note="Let it end (`hiveacid clean` forgets an aborted one), or take another metastore.",
        )
