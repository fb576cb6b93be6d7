"""Runs behaviour vectors of a transaction manager (scenarios as JSON) against a metastore.

A vector is a list of steps: an operation, its arguments, and the result or error to expect. An
operation that
the metastore does not have yet makes the vector *not run*, which is not the same as passed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.metastores import table_rows
from tests.vectors.columns import COUNT_COLUMNS
from tests.vectors.compaction import (
    CompactionOperations,
    Result,
    compaction_options,
)
from tests.vectors.compactor import CompactorOperations

from hiveacid.errors import (
    AcidError,
    AlreadyExistsError,
    ConflictError,
    MetastoreError,
    NotFoundError,
    TransactionError,
)
from hiveacid.metastore.api import LockResponse
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.sql.txns import highest_txn
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, LockId, TableName, TxnId, WriteId
from hiveacid.model.transactions import (
    LockComponent,
    LockSemantics,
    LockType,
    OperationType,
    TxnType,
)
from hiveacid.testing import ManualClock

RUNNABLE_AREAS: Final = (
    "txn",
    "writeid",
    "lock",
    "conflict",
    "compaction",
    "initiator",
    "worker",
    "cleaner",
)


class NotBuiltError(Exception):
    """The vector needs an operation that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One scenario."""

    name: str
    area: str
    steps: tuple[Mapping[str, Any], ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def load_vectors(path: Path) -> tuple[Vector, ...]:
    """All vectors of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Vector(one["name"], one["area"], tuple(one["steps"]), one.get("config", {}))
        for one in content["vectors"]
    )


def run_vector(vector: Vector, *, url: str, warehouse: Path) -> None:
    """Run one vector on the new metastore at ``url``; its tables lie below ``warehouse``.

    Raises:
        AssertionError: a result or error is not the expected one.
        NotBuiltError: an operation is not built yet.
    """
    clock = ManualClock()
    options = _options(vector.config)
    with connect(url, clock=clock, options=options) as metastore:
        _Run(metastore, clock, warehouse, vector.config).steps(vector)


def _options(config: Mapping[str, Any]) -> MetastoreOptions:
    known = {
        "txn.timeout": "txn_timeout_ms",
        "repl.txn.timeout": "repl_txn_timeout_ms",
        "opentxn.timeout": "open_txn_timeout_ms",
        "txn.max.open.batch": "open_batch_max",
        "use.minhistorylevel": "use_min_history_level",
    }
    chosen: dict[str, Any] = {known[key]: value for key, value in config.items() if key in known}
    if "semantics" in config:
        chosen["lock_semantics"] = LockSemantics(config["semantics"])
    chosen["compaction"] = compaction_options(config)
    return MetastoreOptions(durable=False, server_time=False, **chosen)


class _Run(CompactionOperations, CompactorOperations):
    """One vector's metastore, clock and saved results."""

    def __init__(
        self,
        metastore: SqlMetastore,
        clock: ManualClock,
        warehouse: Path,
        config: Mapping[str, Any],
    ) -> None:
        self._metastore = metastore
        self._clock = clock
        self._warehouse = warehouse
        self._config = config
        self._saved: dict[str, Any] = {}

    def steps(self, vector: Vector) -> None:
        operations = {
            name.removeprefix("_op_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_op_")
        }
        for at, step in enumerate(vector.steps, start=1):
            operation: Callable[..., Any] | None = operations.get(step["op"])
            if operation is None:
                raise NotBuiltError(f"operation {step['op']} is not built yet")
            arguments = {key: self._resolve(value) for key, value in step.get("args", {}).items()}
            where = f"{vector.name} step {at} {step['op']} {arguments}"
            self._step(step, operation, arguments, where)

    def _step(
        self, step: Mapping[str, Any], operation: Any, arguments: Mapping[str, Any], where: str
    ) -> None:
        wanted = step.get("error")
        try:
            result = operation(**arguments)
        except AcidError as error:
            assert wanted is not None, f"{where}: {type(error).__name__}: {error}"
            _check_error(error, wanted, where)
            return
        assert wanted is None, f"{where}: expected the error {wanted}, got {result}"
        if "as" in step:
            self._saved[step["as"]] = result
        _check_result(result, self._resolve(step.get("expect", {})), where)

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._resolve(one) for one in value]
        if isinstance(value, dict):
            return {key: self._resolve(one) for key, one in value.items()}
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        found: Any = None
        for at, part in enumerate(re.findall(r"[^.\[\]]+", value[1:])):
            if at == 0:
                found = self._saved[part]
            elif part.isdigit() and isinstance(found, (list, tuple)):
                found = found[int(part)]
            else:
                found = found[part]
        return found

    def _op_advance_clock(self, ms: int) -> None:
        self._clock.advance_ms(ms)

    def _op_open_txns(
        self,
        n: int,
        type: str = "DEFAULT",
        elapsed_ms: int = 0,
        repl_policy: str | None = None,
        src_ids: list[int] | None = None,
    ) -> Result:
        if elapsed_ms:
            self._clock.jump_after_next_read(elapsed_ms)
        txns = self._metastore.open_txns(
            n,
            user="user",
            host="host",
            txn_type=TxnType[type],
            repl_policy=repl_policy,
            source_ids=src_ids or (),
        )
        return {"txn_ids": list(txns)}

    def _op_skip_txn_ids(self, n: int) -> None:
        with self._metastore.database.write() as unit:
            unit.dialect.set_next_txn_id(unit.channel, highest_txn(unit) + 1 + n)

    def _op_get_open_txns(self, exclude_types: list[str] | None = None) -> Result:
        found = self._metastore.get_open_txns(exclude_types=_types(exclude_types or []))
        txns = sorted((*found.open, *found.aborted))
        return {
            "hwm": found.hwm,
            "txns": txns,
            "aborted": list(found.aborted),
            "aborted_bits": [at for at, txn in enumerate(txns) if txn in found.aborted],
            "min_open": found.min_open,
        }

    def _op_valid_txn_list(
        self, current: int | None = None, exclude_types: list[str] | None = None
    ) -> Result:
        excluded = [TxnType.READ_ONLY] if exclude_types is None else _types(exclude_types)
        found = self._metastore.valid_txns(
            None if current is None else TxnId(current), exclude_types=excluded
        )
        return {
            "text": str(found),
            "hwm": found.hwm,
            "min_open": None if found.min_open == LONG_MAX else found.min_open,
            "exceptions": list(found.exceptions),
            "open": list(found.open),
            "aborted": list(found.aborted),
            "list": found,
        }

    def _op_txn_row(self, txn: int) -> Result:
        found = self._metastore.txn_info(TxnId(txn))
        if found is None:
            return {"state": None}
        return {"state": found.state.value, "meta": found.reason, "type": found.type.name}

    def _op_commit_txn(self, txn: int, excl_write_enabled: bool = True) -> None:
        self._metastore.commit_txn(TxnId(txn), excl_write_enabled=excl_write_enabled)

    def _op_abort_txn(self, txn: int) -> None:
        self._metastore.abort_txn(TxnId(txn))

    def _op_abort_txns(self, txns: list[int]) -> None:
        self._metastore.abort_txns([TxnId(txn) for txn in txns])

    def _op_heartbeat(self, txn: int | None = None, lock: int | None = None) -> None:
        self._metastore.heartbeat(
            txn=None if txn is None else TxnId(txn), lock=None if lock is None else LockId(lock)
        )

    def _op_heartbeat_txn_range(self, min: int, max: int) -> Result:
        found = self._metastore.heartbeat_range(TxnId(min), TxnId(max))
        return {"aborted": list(found.aborted), "nosuch": list(found.missing)}

    def _op_perform_timeouts(self) -> None:
        self._metastore.perform_timeouts()

    def _op_clean_empty_txns(self) -> None:
        self._metastore.clean_empty_txns()

    def _op_clean_txn_to_write_id(self) -> None:
        self._metastore.clean_txn_to_write_id()

    def _op_write_set_gc(self) -> None:
        self._metastore.write_set_gc()

    def _op_dedupe_completed(self) -> None:
        self._metastore.dedupe_completed_components()

    def _op_latest_txn_in_conflict(self, txn: int) -> Result:
        return {"value": self._metastore.latest_txn_in_conflict(TxnId(txn)) or 0}

    def _op_allocate_write_ids(
        self, db: str, table: str, txns: list[int], reallocate: bool = False
    ) -> Result:
        given = self._metastore.allocate_write_ids(
            [TxnId(txn) for txn in txns], TableName(db, table), reallocate=reallocate
        )
        return {"write_ids": [[txn, write_id] for txn, write_id in sorted(given.items())]}

    def _op_burn(
        self,
        n: int,
        db: str,
        table: str,
        aborted: list[int] | None = None,
        open: list[int] | None = None,
    ) -> Result:
        txns = self._metastore.open_txns(n, user="user", host="host")
        self._metastore.allocate_write_ids(txns, TableName(db, table))
        for txn in txns:
            if txn in (aborted or ()):
                self._metastore.abort_txn(txn)
            elif txn not in (open or ()):
                self._metastore.commit_txn(txn, excl_write_enabled=True)
        return {"txn_ids": list(txns)}

    def _op_get_valid_write_ids(self, table: str, txn_list: Any = None) -> Result:
        valid = None
        if isinstance(txn_list, str):
            valid = ValidTxnList.parse(txn_list)
        elif txn_list is not None:
            valid = txn_list["list"]
        (found,) = self._metastore.valid_write_ids([_table(table)], valid)
        return _write_ids(found)

    def _op_compactor_write_ids(self, table: str) -> Result:
        (found,) = self._metastore.valid_write_ids([_table(table)])
        return _write_ids(found.for_compactor())

    def _op_seed_write_id(self, db: str, table: str, seed: int) -> None:
        self._metastore.seed_write_id(TableName(db, table), seed)

    def _op_seed_txn_id(self, seed: int) -> None:
        self._metastore.seed_txn_id(seed)

    def _op_add_dynamic_partitions(
        self,
        txn: int,
        write_id: int,
        db: str,
        table: str,
        partitions: list[str],
        op: str | None = None,
    ) -> None:
        self._metastore.add_dynamic_partitions(
            TxnId(txn),
            WriteId(write_id),
            TableName(db, table),
            partitions,
            None if op in (None, "UNSET") else OperationType[str(op)],
        )

    def _op_lock(
        self,
        components: list[Mapping[str, Any]],
        txn: int | None = None,
        zero_wait_read: bool = False,
        exclusive_ctas: bool = False,
    ) -> Result:
        return _lock_result(
            self._metastore.lock(
                [_component(one) for one in components],
                txn=None if not txn else TxnId(txn),
                user="user",
                host="host",
                zero_wait_read=zero_wait_read,
                exclusive_ctas=exclusive_ctas,
            )
        )

    def _op_check_lock(self, lock: int) -> Result:
        return _lock_result(self._metastore.check_lock(LockId(lock)))

    def _op_unlock(self, lock: int) -> None:
        self._metastore.unlock(LockId(lock))

    def _op_show_locks(
        self, db: str | None = None, table: str | None = None, txn: int | None = None
    ) -> Result:
        found = self._metastore.show_locks(
            database=db, table=table, txn=None if txn is None else TxnId(txn)
        )
        return {
            "locks": [
                {
                    "id": one.lock_id,
                    "int_id": one.component_id,
                    "txn": one.txn_id,
                    "db": one.database,
                    "table": one.table,
                    "partition": one.partition,
                    "state": one.state.name,
                    "type": one.type.name,
                    "blocked_by": None
                    if one.blocked_by_lock_id is None
                    else [one.blocked_by_lock_id, one.blocked_by_component_id],
                }
                for one in found
            ]
        }

    def _op_count(self, what: str, **conditions: Any) -> Result:
        columns = COUNT_COLUMNS.get(what)
        if columns is None or not conditions.keys() <= columns.keys():
            raise NotBuiltError(f"count of {what} by {sorted(conditions)} is not built yet")
        return {
            "n": sum(
                all(row[columns[key]] == wanted for key, wanted in conditions.items())
                for row in table_rows(self._metastore, what)
            )
        }


def _types(names: list[str]) -> list[TxnType]:
    return [TxnType[name] for name in names]


def _table(name: str) -> TableName:
    database, _, table = name.partition(".")
    return TableName(database, table)


def _component(one: Mapping[str, Any]) -> LockComponent:
    operation = one.get("op")
    return LockComponent(
        type=LockType[one["type"]],
        database=one["db"],
        table=one.get("table"),
        partition=one.get("partition"),
        operation=None if operation is None else OperationType[operation],
        dynamic=one.get("dyn", False),
        transactional=one.get("transactional"),
    )


def _lock_result(found: LockResponse) -> Result:
    return {"lock": found.lock_id, "state": found.state.name, "message": found.message}


def _write_ids(found: ValidWriteIdList) -> Result:
    return {
        "hwm": found.hwm,
        "invalid": list(found.exceptions),
        "aborted": list(found.aborted),
        "min_open": found.min_open_write_id,
        "text": str(found),
    }


def _exception_name(error: AcidError) -> str:
    """The Thrift exception that stands for an error of ours."""
    if isinstance(error, ConflictError):
        return "TxnAbortedException"
    if isinstance(error, TransactionError):
        state = error.context.get("state")
        return {"aborted": "TxnAbortedException", "open": "TxnOpenException"}.get(
            str(state), "NoSuchTxnException"
        )
    if "compaction" in error.context:
        return "IllegalStateException"
    if isinstance(error, NotFoundError):
        return "NoSuchLockException"
    if isinstance(error, AlreadyExistsError):
        return "DuplicateKey"
    if isinstance(error, MetastoreError) and error.context.get("retryable"):
        return "Retryable"
    return "MetaException"


def _check_error(error: AcidError, wanted: Mapping[str, Any], where: str) -> None:
    if "type" in wanted:
        assert _exception_name(error) == wanted["type"], f"{where}: {error!r} for {wanted}"
    if "message" in wanted:
        assert error.message == wanted["message"], f"{where}: {error.message!r}"
    if "contains" in wanted:
        assert wanted["contains"] in error.message, f"{where}: {error.message!r}"


def _check_result(result: Any, wanted: Mapping[str, Any], where: str) -> None:
    for key, value in wanted.items():
        found = result[key]
        if key == "locks":
            # Hive's order of SHOW LOCKS hangs on a comparator with a typo: only the rows count.
            value = sorted(value, key=_lock_order)
            found = sorted(found, key=_lock_order)
        assert _matches(found, value), f"{where}: {key} is {found!r}, expected {value!r}"


def _lock_order(row: Mapping[str, Any]) -> tuple[int, int]:
    return row.get("id", 0), row.get("int_id", 0)


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(key in found and _matches(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_matches, found, wanted))
    return bool(found == wanted)
