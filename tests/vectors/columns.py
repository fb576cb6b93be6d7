"""The columns of transaction tables by the names that behaviour vectors use in ``count``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COUNT_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "TXNS": {"state": "TXN_STATE", "txn": "TXN_ID", "type": "TXN_TYPE"},
    "TXN_COMPONENTS": {
        "txn": "TC_TXNID",
        "db": "TC_DATABASE",
        "table": "TC_TABLE",
        "part": "TC_PARTITION",
        "op": "TC_OPERATION_TYPE",
        "wid": "TC_WRITEID",
    },
    "COMPLETED_TXN_COMPONENTS": {
        "txn": "CTC_TXNID",
        "db": "CTC_DATABASE",
        "table": "CTC_TABLE",
        "part": "CTC_PARTITION",
        "wid": "CTC_WRITEID",
        "upd": "CTC_UPDATE_DELETE",
    },
    "WRITE_SET": {
        "txn": "WS_TXNID",
        "db": "WS_DATABASE",
        "table": "WS_TABLE",
        "part": "WS_PARTITION",
        "op": "WS_OPERATION_TYPE",
        "commit": "WS_COMMIT_ID",
    },
    "HIVE_LOCKS": {
        "txn": "HL_TXNID",
        "lock": "HL_LOCK_EXT_ID",
        "db": "HL_DB",
        "table": "HL_TABLE",
        "part": "HL_PARTITION",
        "state": "HL_LOCK_STATE",
        "type": "HL_LOCK_TYPE",
    },
    "TXN_TO_WRITE_ID": {
        "txn": "T2W_TXNID",
        "db": "T2W_DATABASE",
        "table": "T2W_TABLE",
        "wid": "T2W_WRITEID",
    },
    "NEXT_WRITE_ID": {"db": "NWI_DATABASE", "table": "NWI_TABLE", "next": "NWI_NEXT"},
    "MIN_HISTORY_LEVEL": {"txn": "MHL_TXNID", "min_open": "MHL_MIN_OPEN_TXNID"},
    "COMPACTION_QUEUE": {
        "id": "CQ_ID",
        "db": "CQ_DATABASE",
        "table": "CQ_TABLE",
        "part": "CQ_PARTITION",
        "state": "CQ_STATE",
        "type": "CQ_TYPE",
        "retention": "CQ_RETRY_RETENTION",
        "error": "CQ_ERROR_MESSAGE",
    },
    "COMPLETED_COMPACTIONS": {
        "id": "CC_ID",
        "db": "CC_DATABASE",
        "table": "CC_TABLE",
        "part": "CC_PARTITION",
        "state": "CC_STATE",
        "type": "CC_TYPE",
    },
}
