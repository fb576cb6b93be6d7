"""The operations of behaviour vectors that are about compactions; ``running`` has the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hiveacid.layout.directories import parse_partition_name
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.metastore.sql.cleaning import purge_history
from hiveacid.metastore.upkeep import CompactionOptions
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import Column, Database, Partition, Table, TableName, TxnId, WriteId
from hiveacid.model.transactions import TxnType
from hiveacid.model.types import parse_type
from hiveacid.testing import ManualClock

Result = Mapping[str, Any]

_OPTIONS: Final[Mapping[str, str]] = {
    "pool.timeout": "pool_timeout_ms",
    "failed.threshold": "failures_max",
    "failed.retry": "failures_pause_ms",
    "retry.retention": "cleaning_retry_ms",
    "max.retry": "cleaning_attempts_max",
    "hist.did_not_initiate": "kept_not_initiated",
    "hist.failed": "kept_failed",
    "hist.succeeded": "kept_succeeded",
    "hist.refused": "kept_refused",
    "hist.timeout": "history_ms",
}
_SETTLED_MS: Final = 1_001
"""After so long the ids below a transaction's are no holes any more."""


def compaction_options(config: Mapping[str, Any]) -> CompactionOptions:
    """The options of a vector's ``config``."""
    chosen = {_OPTIONS[key]: value for key, value in config.items() if key in _OPTIONS}
    if config.get("delayed.cleanup"):
        chosen["cleaning_delay_ms"] = config.get("cleaner.retention", 300_000)
    return CompactionOptions(**chosen)


class CompactionOperations:
    """Operations ``_op_...`` on the queue, on tables and their directories."""

    _metastore: SqlMetastore
    _clock: ManualClock
    _warehouse: Path
    _config: Mapping[str, Any]

    def _op_make_table(
        self,
        db: str,
        table: str,
        props: Mapping[str, str] | None = None,
        partition_keys: list[str] | None = None,
    ) -> None:
        self._metastore.create_database(Database(db, str(self._warehouse / db)), if_not_exists=True)
        location = self._warehouse / db / table
        location.mkdir(parents=True)
        self._metastore.create_table(
            Table(
                TableName(db, table),
                (Column("a", parse_type("int")), Column("b", parse_type("string"))),
                str(location),
                tuple(Column(key, parse_type("string")) for key in partition_keys or ()),
                properties={
                    "transactional": "true",
                    "transactional_properties": "default",
                    **(props or {}),
                },
            )
        )

    def _op_make_partition(
        self, db: str, table: str, partition: str, props: Mapping[str, str] | None = None
    ) -> None:
        name = TableName(db, table)
        location = Path(self._metastore.get_table(name).location) / partition
        location.mkdir()
        pairs = parse_partition_name(partition)
        assert pairs is not None, f"no partition name: {partition}"
        values = tuple(value for _, value in pairs)
        self._metastore.add_partitions(name, [Partition(values, str(location), props or {})])

    def _op_set_props(self, db: str, table: str, props: Mapping[str, str]) -> None:
        self._metastore.alter_table(
            TableName(db, table), lambda now: replace(now, properties={**now.properties, **props})
        )

    def _op_drop_table(self, db: str, table: str) -> None:
        self._metastore.drop_table(TableName(db, table))

    def _op_dirs(
        self,
        db: str,
        table: str,
        add: Mapping[str, int] | None = None,
        partition: str | None = None,
    ) -> Result:
        root = Path(self._metastore.get_table(TableName(db, table)).location) / (partition or "")
        for name, size in (add or {}).items():
            (root / name).mkdir()
            (root / name / "bucket_00000").write_bytes(b"x" * size)
        return {"value": sorted(path.name for path in root.iterdir())}

    def _op_compact(
        self, db: str, table: str, type: str, partition: str | None = None, pool: str | None = None
    ) -> Result:
        answer = self._metastore.compact(
            CompactionRequest(TableName(db, table), partition, CompactionType[type], pool=pool)
        )
        return {
            "id": answer.id,
            "state": answer.state.phrase,
            "accepted": answer.accepted,
            "message": answer.message,
        }

    def _op_compact_in_txn(
        self, db: str, table: str, type: str, partition: str | None = None, hold: bool = False
    ) -> Result:
        self._op_compact(db, table, type, partition)
        claimed = self._metastore.find_next_compaction("worker")
        assert claimed is not None, "nothing to claim"
        (txn,) = self._metastore.open_txns(1, user="user", host="host", txn_type=TxnType.COMPACTION)
        (valid,) = self._metastore.valid_write_ids([claimed.table], self._metastore.valid_txns(txn))
        highest = WriteId(valid.for_compactor().hwm)
        self._metastore.set_compactor_txn(claimed.id, txn, highest_write_id=highest)
        self._metastore.mark_compacted(claimed.id, txn=txn)
        if not hold:
            self._metastore.commit_txn(txn)
            self._clock.advance_ms(_SETTLED_MS)
        return {"id": claimed.id, "txn": txn, "highest_write_id": highest}

    def _op_show_compact(self) -> Result:
        found = sorted(self._metastore.show_compactions(), key=lambda one: one.id)
        return {
            "compactions": [
                {
                    "id": one.id,
                    "db": one.table.database,
                    "table": one.table.table,
                    "partition": one.partition,
                    "type": one.type.name,
                    "state": one.state.phrase,
                    "worker": one.worker,
                    "runas": one.run_as,
                    "error": one.error,
                    "enqueue": one.enqueued_ms,
                    "start": one.started_ms,
                }
                for one in found
            ]
        }

    def _op_find_next_compact(self, worker: str, pool: str | None = None) -> Result:
        found = self._metastore.find_next_compaction(worker, pool=pool)
        return {"id": None if found is None else found.id}

    def _op_update_compactor_state(
        self, id: int, txn: int, highest_write_id: int, runas: str | None = None
    ) -> None:
        self._metastore.set_compactor_txn(
            CompactionId(id), TxnId(txn), highest_write_id=WriteId(highest_write_id), run_as=runas
        )

    def _op_mark_compacted(self, id: int) -> None:
        self._metastore.mark_compacted(CompactionId(id), txn=self._entry(id).txn)

    def _op_mark_failed(self, id: int | None = None, error: str = "error", **named: str) -> None:
        self._metastore.mark_failed(self._entry(id, **named), error)

    def _op_mark_refused(self, id: int | None = None, **named: str) -> None:
        self._metastore.mark_refused(self._entry(id, **named), "refused")

    def _op_mark_cleaned(self, id: int) -> None:
        self._metastore.mark_cleaned(self._entry(id))

    def _op_check_failed(self, db: str, table: str, partition: str | None = None) -> Result:
        blocked = self._metastore.is_blocked_by_failures(TableName(db, table), partition)
        return {"blocked": blocked}

    def _op_revoke_local_workers(self, host: str) -> None:
        self._metastore.revoke_workers(host=host)

    def _op_purge_history(self) -> None:
        purge_history(self._metastore.database)

    def _op_abort_compactions(self, ids: list[int]) -> Result:
        found = self._metastore.abort_compactions([CompactionId(one) for one in ids])
        return {"status": {str(one): status for one, (status, _) in found.items()}}

    def _op_find_potential_compactions(self, since_ms: int | None = None) -> Result:
        found = self._metastore.find_potential_compactions(since_ms=since_ms)
        return {"objects": [_object(table, partition) for table, partition in found]}

    def _op_find_ready_to_clean(self) -> Result:
        found = self._metastore.find_ready_to_clean(uncommitted=True)
        return {"ids": [one.id for one in found]}

    def _op_find_ready_to_clean_aborts(self, aborted_threshold: int, aborted_time: int) -> Result:
        found = self._metastore.find_aborts_to_clean(
            threshold=aborted_threshold, age_ms=aborted_time
        )
        return {"objects": [_object(one.table, one.partition) for one in found]}

    def _entry(self, compaction: int | None, **named: str) -> CompactionInfo:
        """The entry with this id, or one that never was in the queue."""
        if compaction is not None:
            (found,) = self._metastore.show_compactions(compaction=CompactionId(compaction))
            return found
        return CompactionInfo(
            id=NO_COMPACTION,
            table=TableName(named["db"], named["table"]),
            partition=named.get("partition"),
            type=CompactionType[named["type"]],
            state=CompactionState.INITIATED,
        )


def _object(table: TableName, partition: str | None) -> str:
    return f"{table}.{partition}" if partition is not None else str(table)
