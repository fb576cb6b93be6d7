"""Statements that tell whether what a transaction is to write to was replaced meanwhile: asked with
its locks, and by the commit's checks.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import and_, bindparam, or_, select

from hiveacid.metastore.sql.schema import TXN_COMPONENTS, TXN_TO_WRITE_ID, WRITE_SET
from hiveacid.model.transactions import OperationType

_C = TXN_COMPONENTS.c
_S = WRITE_SET.c
_W = TXN_TO_WRITE_ID.c

OVERLAPPING: Final = and_(
    _S.WS_DATABASE == _C.TC_DATABASE,
    _S.WS_TABLE == _C.TC_TABLE,
    _S.WS_COMMIT_ID >= bindparam("txn"),
    _S.WS_TXNID != bindparam("txn"),
)
"""What others committed, beside what a transaction recorded, since it opened."""
NEWER_OVERWRITE: Final = (
    select(_S.WS_TXNID)
    .join_from(WRITE_SET, TXN_COMPONENTS, OVERLAPPING)
    .join(
        TXN_TO_WRITE_ID,
        and_(
            _W.T2W_TXNID == _S.WS_TXNID,
            _W.T2W_DATABASE == _S.WS_DATABASE,
            _W.T2W_TABLE == _S.WS_TABLE,
        ),
    )
    .where(
        _C.TC_TXNID == bindparam("txn"),
        _S.WS_OPERATION_TYPE == OperationType.UPDATE.value,
        _W.T2W_WRITEID > _C.TC_WRITEID,
        or_(
            _S.WS_PARTITION == _C.TC_PARTITION,
            _S.WS_PARTITION.is_(None),
            _C.TC_PARTITION.is_(None),
        ),
    )
    .limit(1)
)
"""See ``OwnDatabase.newer_overwrite``."""
