"""The transaction tables: Hive 4.1's own names, columns and indexes (metastore.md section 1).

Objects that Hive does not have are called ``HIVEACID_...``: ``HIVEACID_VERSION`` holds the version
of this schema, the extra indexes keep the hot queries short when millions of rows are in the
tables.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
)

SCHEMA_VERSION: Final = 6
"""Version of the tables declared here; a database with a higher one is refused."""

METADATA: Final = MetaData()
ID: Final = BigInteger().with_variant(Integer(), "sqlite")
"""A key that is SQLite's row id."""

HIVEACID_VERSION = Table(
    "HIVEACID_VERSION",
    METADATA,
    Column("SCHEMA_VERSION", Integer, nullable=False),
)

HIVEACID_STREAM_BATCHES = Table(
    "HIVEACID_STREAM_BATCHES",
    METADATA,
    Column("SB_APP_ID", String(256), primary_key=True),
    Column("SB_DATABASE", String(128), primary_key=True),
    Column("SB_TABLE", String(256), primary_key=True),
    Column("SB_BATCH_ID", BigInteger, nullable=False),
    Column("SB_TABLE_ID", BigInteger),
)
"""The last micro-batch of each stream that is in a table. The row stays where the table is dropped,
so that a stream does not take another one of the name for it (TBLS.TBL_ID)."""

TXNS = Table(
    "TXNS",
    METADATA,
    Column("TXN_ID", ID, primary_key=True),
    Column("TXN_STATE", String(1), nullable=False),
    Column("TXN_STARTED", BigInteger, nullable=False),
    Column("TXN_LAST_HEARTBEAT", BigInteger, nullable=False),
    Column("TXN_USER", String(128), nullable=False),
    Column("TXN_HOST", String(128), nullable=False),
    Column("TXN_AGENT_INFO", String(128)),
    Column("TXN_META_INFO", String(128)),
    Column("TXN_HEARTBEAT_COUNT", Integer),
    Column("TXN_TYPE", Integer),
    Index("TXN_STATE_IDX", "TXN_STATE", "TXN_ID", unique=True),
    Index("HIVEACID_TXNS_STARTED", "TXN_STARTED"),
    sqlite_autoincrement=True,
)

TXN_LOCK_TBL = Table(
    "TXN_LOCK_TBL",
    METADATA,
    Column("TXN_LOCK", BigInteger, nullable=False),
)

TXN_COMPONENTS = Table(
    "TXN_COMPONENTS",
    METADATA,
    Column("TC_TXNID", BigInteger, nullable=False),
    Column("TC_DATABASE", String(128), nullable=False),
    Column("TC_TABLE", String(256)),
    Column("TC_PARTITION", String(767)),
    Column("TC_OPERATION_TYPE", String(1), nullable=False),
    Column("TC_WRITEID", BigInteger),
    Index("tc_txnid_index", "TC_TXNID"),
)

COMPLETED_TXN_COMPONENTS = Table(
    "COMPLETED_TXN_COMPONENTS",
    METADATA,
    Column("CTC_TXNID", BigInteger, nullable=False),
    Column("CTC_DATABASE", String(128), nullable=False),
    Column("CTC_TABLE", String(256)),
    Column("CTC_PARTITION", String(767)),
    Column("CTC_TIMESTAMP", DateTime, nullable=False, server_default=func.current_timestamp()),
    Column("CTC_WRITEID", BigInteger),
    Column("CTC_UPDATE_DELETE", String(1), nullable=False),
    Index("completed_txn_components_index", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION"),
    Index(
        "HIVEACID_COMPLETED_NEWEST",
        "CTC_DATABASE",
        "CTC_TABLE",
        "CTC_PARTITION",
        "CTC_WRITEID",
    ),
)

TXN_TO_WRITE_ID = Table(
    "TXN_TO_WRITE_ID",
    METADATA,
    Column("T2W_TXNID", BigInteger, nullable=False),
    Column("T2W_DATABASE", String(128), nullable=False),
    Column("T2W_TABLE", String(256), nullable=False),
    Column("T2W_WRITEID", BigInteger, nullable=False),
    Index("TBL_TO_TXN_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_TXNID", unique=True),
    Index("TBL_TO_WRITE_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID", unique=True),
)

NEXT_WRITE_ID = Table(
    "NEXT_WRITE_ID",
    METADATA,
    Column("NWI_DATABASE", String(128), nullable=False),
    Column("NWI_TABLE", String(256), nullable=False),
    Column("NWI_NEXT", BigInteger, nullable=False),
    Index("NEXT_WRITE_ID_IDX", "NWI_DATABASE", "NWI_TABLE", unique=True),
)

WRITE_SET = Table(
    "WRITE_SET",
    METADATA,
    Column("WS_DATABASE", String(128), nullable=False),
    Column("WS_TABLE", String(256), nullable=False),
    Column("WS_PARTITION", String(767)),
    Column("WS_TXNID", BigInteger, nullable=False),
    Column("WS_COMMIT_ID", BigInteger, nullable=False),
    Column("WS_OPERATION_TYPE", String(1), nullable=False),
    Index("HIVEACID_WRITE_SET_TXN", "WS_TXNID"),
    Index("HIVEACID_WRITE_SET_TABLE", "WS_DATABASE", "WS_TABLE", "WS_COMMIT_ID"),
)

MIN_HISTORY_LEVEL = Table(
    "MIN_HISTORY_LEVEL",
    METADATA,
    Column("MHL_TXNID", ID, primary_key=True, autoincrement=False),
    Column("MHL_MIN_OPEN_TXNID", BigInteger, nullable=False),
    Index("MIN_HISTORY_LEVEL_IDX", "MHL_MIN_OPEN_TXNID"),
)

MIN_HISTORY_WRITE_ID = Table(
    "MIN_HISTORY_WRITE_ID",
    METADATA,
    Column("MH_TXNID", BigInteger, nullable=False),
    Column("MH_DATABASE", String(128), nullable=False),
    Column("MH_TABLE", String(256), nullable=False),
    Column("MH_WRITEID", BigInteger, nullable=False),
)

HIVE_LOCKS = Table(
    "HIVE_LOCKS",
    METADATA,
    Column("HL_LOCK_EXT_ID", BigInteger, primary_key=True),
    Column("HL_LOCK_INT_ID", BigInteger, primary_key=True),
    Column("HL_TXNID", BigInteger, nullable=False),
    Column("HL_DB", String(128), nullable=False),
    Column("HL_TABLE", String(256)),
    Column("HL_PARTITION", String(767)),
    Column("HL_LOCK_STATE", String(1), nullable=False),
    Column("HL_LOCK_TYPE", String(1), nullable=False),
    Column("HL_LAST_HEARTBEAT", BigInteger, nullable=False),
    Column("HL_ACQUIRED_AT", BigInteger),
    Column("HL_USER", String(128), nullable=False),
    Column("HL_HOST", String(128), nullable=False),
    Column("HL_HEARTBEAT_COUNT", Integer),
    Column("HL_AGENT_INFO", String(128)),
    Column("HL_BLOCKEDBY_EXT_ID", BigInteger),
    Column("HL_BLOCKEDBY_INT_ID", BigInteger),
    Index("hl_txnid_index", "HL_TXNID"),
)

NEXT_LOCK_ID = Table(
    "NEXT_LOCK_ID",
    METADATA,
    Column("NL_NEXT", BigInteger, nullable=False),
)

COMPACTION_QUEUE = Table(
    "COMPACTION_QUEUE",
    METADATA,
    Column("CQ_ID", ID, primary_key=True, autoincrement=False),
    Column("CQ_DATABASE", String(128), nullable=False),
    Column("CQ_TABLE", String(256), nullable=False),
    Column("CQ_PARTITION", String(767)),
    Column("CQ_STATE", String(1), nullable=False),
    Column("CQ_TYPE", String(1), nullable=False),
    Column("CQ_TBLPROPERTIES", String(2048)),
    Column("CQ_WORKER_ID", String(128)),
    Column("CQ_ENQUEUE_TIME", BigInteger),
    Column("CQ_START", BigInteger),
    Column("CQ_RUN_AS", String(128)),
    Column("CQ_HIGHEST_WRITE_ID", BigInteger),
    Column("CQ_META_INFO", LargeBinary),
    Column("CQ_HADOOP_JOB_ID", String(32)),
    Column("CQ_ERROR_MESSAGE", Text),
    Column("CQ_NEXT_TXN_ID", BigInteger),
    Column("CQ_TXN_ID", BigInteger),
    Column("CQ_COMMIT_TIME", BigInteger),
    Column("CQ_INITIATOR_ID", String(128)),
    Column("CQ_INITIATOR_VERSION", String(128)),
    Column("CQ_WORKER_VERSION", String(128)),
    Column("CQ_CLEANER_START", BigInteger),
    Column("CQ_RETRY_RETENTION", BigInteger, nullable=False, server_default="0"),
    Column("CQ_POOL_NAME", String(128)),
    Column("CQ_NUMBER_OF_BUCKETS", Integer),
    Column("CQ_ORDER_BY", String(4000)),
)

COMPLETED_COMPACTIONS = Table(
    "COMPLETED_COMPACTIONS",
    METADATA,
    Column("CC_ID", ID, primary_key=True, autoincrement=False),
    Column("CC_DATABASE", String(128), nullable=False),
    Column("CC_TABLE", String(256), nullable=False),
    Column("CC_PARTITION", String(767)),
    Column("CC_STATE", String(1), nullable=False),
    Column("CC_TYPE", String(1), nullable=False),
    Column("CC_TBLPROPERTIES", String(2048)),
    Column("CC_WORKER_ID", String(128)),
    Column("CC_ENQUEUE_TIME", BigInteger),
    Column("CC_START", BigInteger),
    Column("CC_END", BigInteger),
    Column("CC_RUN_AS", String(128)),
    Column("CC_HIGHEST_WRITE_ID", BigInteger),
    Column("CC_META_INFO", LargeBinary),
    Column("CC_HADOOP_JOB_ID", String(32)),
    Column("CC_ERROR_MESSAGE", Text),
    Column("CC_NEXT_TXN_ID", BigInteger),
    Column("CC_TXN_ID", BigInteger),
    Column("CC_COMMIT_TIME", BigInteger),
    Column("CC_INITIATOR_ID", String(128)),
    Column("CC_INITIATOR_VERSION", String(128)),
    Column("CC_WORKER_VERSION", String(128)),
    Column("CC_POOL_NAME", String(128)),
    Column("CC_NUMBER_OF_BUCKETS", Integer),
    Column("CC_ORDER_BY", String(4000)),
    Index("COMPLETED_COMPACTIONS_RES", "CC_DATABASE", "CC_TABLE", "CC_PARTITION"),
)

NEXT_COMPACTION_QUEUE_ID = Table(
    "NEXT_COMPACTION_QUEUE_ID",
    METADATA,
    Column("NCQ_NEXT", BigInteger, nullable=False),
)

COMPACTION_METRICS_CACHE = Table(
    "COMPACTION_METRICS_CACHE",
    METADATA,
    Column("CMC_DATABASE", String(128), nullable=False),
    Column("CMC_TABLE", String(256), nullable=False),
    Column("CMC_PARTITION", String(767)),
    Column("CMC_METRIC_TYPE", String(128), nullable=False),
    Column("CMC_METRIC_VALUE", Integer, nullable=False),
    Column("CMC_VERSION", Integer, nullable=False),
)

AUX_TABLE = Table(
    "AUX_TABLE",
    METADATA,
    Column("MT_KEY1", String(128), primary_key=True),
    Column("MT_KEY2", BigInteger, primary_key=True),
    Column("MT_COMMENT", String(255)),
)

MATERIALIZATION_REBUILD_LOCKS = Table(
    "MATERIALIZATION_REBUILD_LOCKS",
    METADATA,
    Column("MRL_TXN_ID", ID, primary_key=True, autoincrement=False),
    Column("MRL_DB_NAME", String(128), nullable=False),
    Column("MRL_TBL_NAME", String(256), nullable=False),
    Column("MRL_LAST_HEARTBEAT", BigInteger, nullable=False),
)

REPL_TXN_MAP = Table(
    "REPL_TXN_MAP",
    METADATA,
    Column("RTM_REPL_POLICY", String(256), primary_key=True),
    Column("RTM_SRC_TXN_ID", BigInteger, primary_key=True),
    Column("RTM_TARGET_TXN_ID", BigInteger, nullable=False),
)
