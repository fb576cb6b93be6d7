"""Directory and file names: ``parse_x(format_x(v)) == v`` (format.md 1.1-1.7)."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.ids import NO_STATEMENT, StatementId, TxnId, WriteId


@dataclass(frozen=True, slots=True)
class BaseName:
    """``base_W[_vT]``; ``visibility_txn`` is 0 where there is no suffix."""

    write_id: WriteId
    visibility_txn: TxnId = TxnId(0)


@dataclass(frozen=True, slots=True)
class DeltaName:
    """``delta_a_b[_s][_vT]`` or ``delete_delta_a_b[_s][_vT]``; ``statement_id`` is -1 where there is none."""

    min_write_id: WriteId
    max_write_id: WriteId
    statement_id: StatementId = NO_STATEMENT
    visibility_txn: TxnId = TxnId(0)
    is_delete: bool = False
