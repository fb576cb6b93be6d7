"""The catalog tables: Hive 4.1's own names and columns (core metastore schema).

After them the tables of the past, which Hive does not have: commits in their order, columns and
partitions of then, what cleaners have made unreadable, and what they must keep. A table stands
there by its number in the catalog, which a RENAME keeps and a new table of an old name does not
have.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    false,
)

from hiveacid.metastore.sql.schema import ID, METADATA

CTLGS = Table(
    "CTLGS",
    METADATA,
    Column("CTLG_ID", ID, primary_key=True, autoincrement=False),
    Column("NAME", String(256)),
    Column("DESC", String(4000)),
    Column("LOCATION_URI", String(4000), nullable=False),
    Column("CREATE_TIME", BigInteger),
    Index("CTLGS_NAME_key", "NAME", unique=True),
)

DBS = Table(
    "DBS",
    METADATA,
    Column("DB_ID", ID, primary_key=True, autoincrement=False),
    Column("DESC", String(4000)),
    Column("DB_LOCATION_URI", String(4000), nullable=False),
    Column("NAME", String(128)),
    Column("OWNER_NAME", String(128)),
    Column("OWNER_TYPE", String(10)),
    Column("CTLG_NAME", String(256), nullable=False, server_default="hive"),
    Column("CREATE_TIME", BigInteger),
    Column("DB_MANAGED_LOCATION_URI", String(4000)),
    Column("TYPE", String(32), nullable=False, server_default="NATIVE"),
    Column("DATACONNECTOR_NAME", String(128)),
    Column("REMOTE_DBNAME", String(128)),
    Index("UNIQUE_DATABASE", "NAME", "CTLG_NAME", unique=True),
)

DATABASE_PARAMS = Table(
    "DATABASE_PARAMS",
    METADATA,
    Column("DB_ID", BigInteger, primary_key=True),
    Column("PARAM_KEY", String(180), primary_key=True),
    Column("PARAM_VALUE", String(4000)),
    Index("DATABASE_PARAMS_N49", "DB_ID"),
)

TBLS = Table(
    "TBLS",
    METADATA,
    Column("TBL_ID", ID, primary_key=True, autoincrement=False),
    Column("CREATE_TIME", BigInteger, nullable=False),
    Column("DB_ID", BigInteger),
    Column("LAST_ACCESS_TIME", BigInteger, nullable=False),
    Column("OWNER", String(767)),
    Column("OWNER_TYPE", String(10)),
    Column("RETENTION", BigInteger, nullable=False),
    Column("SD_ID", BigInteger),
    Column("TBL_NAME", String(256)),
    Column("TBL_TYPE", String(128)),
    Column("VIEW_EXPANDED_TEXT", Text),
    Column("VIEW_ORIGINAL_TEXT", Text),
    Column("IS_REWRITE_ENABLED", Boolean, nullable=False, server_default=false()),
    Column("WRITE_ID", BigInteger, server_default="0"),
    Index("TBLS_N50", "SD_ID"),
    Index("UNIQUETABLE", "TBL_NAME", "DB_ID", unique=True),
)

TABLE_PARAMS = Table(
    "TABLE_PARAMS",
    METADATA,
    Column("TBL_ID", BigInteger, primary_key=True),
    Column("PARAM_KEY", String(256), primary_key=True),
    Column("PARAM_VALUE", Text),
    Index("TABLE_PARAMS_N49", "TBL_ID"),
)

SDS = Table(
    "SDS",
    METADATA,
    Column("SD_ID", ID, primary_key=True, autoincrement=False),
    Column("INPUT_FORMAT", String(4000)),
    Column("IS_COMPRESSED", Boolean, nullable=False),
    Column("LOCATION", String(4000)),
    Column("NUM_BUCKETS", BigInteger, nullable=False),
    Column("OUTPUT_FORMAT", String(4000)),
    Column("SERDE_ID", BigInteger),
    Column("CD_ID", BigInteger),
    Column("IS_STOREDASSUBDIRECTORIES", Boolean, nullable=False),
    Index("SDS_N49", "SERDE_ID"),
    Index("SDS_N50", "CD_ID"),
)

SD_PARAMS = Table(
    "SD_PARAMS",
    METADATA,
    Column("SD_ID", BigInteger, primary_key=True),
    Column("PARAM_KEY", String(256), primary_key=True),
    Column("PARAM_VALUE", Text),
    Index("SD_PARAMS_N49", "SD_ID"),
)

CDS = Table(
    "CDS",
    METADATA,
    Column("CD_ID", ID, primary_key=True, autoincrement=False),
)

COLUMNS_V2 = Table(
    "COLUMNS_V2",
    METADATA,
    Column("CD_ID", BigInteger, primary_key=True),
    Column("COMMENT", String(4000)),
    Column("COLUMN_NAME", String(767), primary_key=True),
    Column("TYPE_NAME", Text),
    Column("INTEGER_IDX", Integer, nullable=False),
)

SERDES = Table(
    "SERDES",
    METADATA,
    Column("SERDE_ID", ID, primary_key=True, autoincrement=False),
    Column("NAME", String(128)),
    Column("SLIB", String(4000)),
    Column("DESCRIPTION", String(4000)),
    Column("SERIALIZER_CLASS", String(4000)),
    Column("DESERIALIZER_CLASS", String(4000)),
    Column("SERDE_TYPE", Integer),
)

SERDE_PARAMS = Table(
    "SERDE_PARAMS",
    METADATA,
    Column("SERDE_ID", BigInteger, primary_key=True),
    Column("PARAM_KEY", String(256), primary_key=True),
    Column("PARAM_VALUE", Text),
    Index("SERDE_PARAMS_N49", "SERDE_ID"),
)

PARTITION_KEYS = Table(
    "PARTITION_KEYS",
    METADATA,
    Column("TBL_ID", BigInteger, primary_key=True),
    Column("PKEY_COMMENT", String(4000)),
    Column("PKEY_NAME", String(128), primary_key=True),
    Column("PKEY_TYPE", String(767), nullable=False),
    Column("INTEGER_IDX", BigInteger, nullable=False),
    Index("PARTITION_KEYS_N49", "TBL_ID"),
)

PARTITIONS = Table(
    "PARTITIONS",
    METADATA,
    Column("PART_ID", ID, primary_key=True, autoincrement=False),
    Column("CREATE_TIME", BigInteger, nullable=False),
    Column("LAST_ACCESS_TIME", BigInteger, nullable=False),
    Column("PART_NAME", String(767)),
    Column("SD_ID", BigInteger),
    Column("TBL_ID", BigInteger),
    Column("WRITE_ID", BigInteger, server_default="0"),
    Index("PARTITIONS_N50", "SD_ID"),
    Index("UNIQUEPARTITION", "TBL_ID", "PART_NAME", unique=True),
)

PARTITION_KEY_VALS = Table(
    "PARTITION_KEY_VALS",
    METADATA,
    Column("PART_ID", BigInteger, primary_key=True),
    Column("PART_KEY_VAL", String(256)),
    Column("INTEGER_IDX", BigInteger, primary_key=True),
    Index("PARTITION_KEY_VALS_N49", "PART_ID"),
)

PARTITION_PARAMS = Table(
    "PARTITION_PARAMS",
    METADATA,
    Column("PART_ID", BigInteger, primary_key=True),
    Column("PARAM_KEY", String(256), primary_key=True),
    Column("PARAM_VALUE", Text),
    Index("PARTITION_PARAMS_N49", "PART_ID"),
)

BUCKETING_COLS = Table(
    "BUCKETING_COLS",
    METADATA,
    Column("SD_ID", BigInteger, primary_key=True),
    Column("BUCKET_COL_NAME", String(256)),
    Column("INTEGER_IDX", BigInteger, primary_key=True),
    Index("BUCKETING_COLS_N49", "SD_ID"),
)

SORT_COLS = Table(
    "SORT_COLS",
    METADATA,
    Column("SD_ID", BigInteger, primary_key=True),
    Column("COLUMN_NAME", String(767)),
    Column("ORDER", BigInteger, nullable=False),
    Column("INTEGER_IDX", BigInteger, primary_key=True),
    Index("SORT_COLS_N49", "SD_ID"),
)


def _column_statistics(name: str, *, owner: str, index: str) -> Table:
    return Table(
        name,
        METADATA,
        Column("CS_ID", ID, primary_key=True, autoincrement=False),
        Column("COLUMN_NAME", String(767)),
        Column("COLUMN_TYPE", String(128)),
        Column(owner, BigInteger, nullable=False),
        Column("LONG_LOW_VALUE", BigInteger),
        Column("LONG_HIGH_VALUE", BigInteger),
        Column("DOUBLE_LOW_VALUE", Double),
        Column("DOUBLE_HIGH_VALUE", Double),
        Column("BIG_DECIMAL_LOW_VALUE", String(4000)),
        Column("BIG_DECIMAL_HIGH_VALUE", String(4000)),
        Column("NUM_NULLS", BigInteger, nullable=False),
        Column("NUM_DISTINCTS", BigInteger),
        Column("BIT_VECTOR", LargeBinary),
        Column("AVG_COL_LEN", Double),
        Column("MAX_COL_LEN", BigInteger),
        Column("NUM_TRUES", BigInteger),
        Column("NUM_FALSES", BigInteger),
        Column("LAST_ANALYZED", BigInteger, nullable=False),
        Column("ENGINE", String(128), nullable=False),
        Column("HISTOGRAM", LargeBinary),
        Index(index, owner, "COLUMN_NAME"),
    )


TAB_COL_STATS = _column_statistics("TAB_COL_STATS", owner="TBL_ID", index="TAB_COL_STATS_IDX")

PART_COL_STATS = _column_statistics("PART_COL_STATS", owner="PART_ID", index="PCS_STATS_IDX")

SEQUENCE_TABLE = Table(
    "SEQUENCE_TABLE",
    METADATA,
    Column("SEQUENCE_NAME", String(255), primary_key=True),
    Column("NEXT_VAL", BigInteger, nullable=False),
)

VERSION = Table(
    "VERSION",
    METADATA,
    Column("VER_ID", ID, primary_key=True, autoincrement=False),
    Column("SCHEMA_VERSION", String(127), nullable=False),
    Column("VERSION_COMMENT", String(255), nullable=False),
)


HIVEACID_COMMIT_CLOCK: Final = Table(
    "HIVEACID_COMMIT_CLOCK",
    METADATA,
    Column("HK_SEQ", BigInteger, nullable=False),
    Column("HK_TIME", BigInteger, nullable=False),
)
"""One row: place and time of the last commit. Who writes it is the only one to commit until it has
committed, so places are in the order in which commits are seen.
"""
HIVEACID_COMMITS: Final = Table(
    "HIVEACID_COMMITS",
    METADATA,
    Column("HC_TBL_ID", BigInteger, primary_key=True),
    Column("HC_SEQ", BigInteger, primary_key=True),
    Column("HC_WRITEID", BigInteger, nullable=False),
    Column("HC_TXNID", BigInteger, nullable=False),
    Column("HC_STARTED", BigInteger, nullable=False),
    Column("HC_TIME", BigInteger, nullable=False),
    Column("HC_KIND", String(128), nullable=False),
    Column("HC_INSERTED", BigInteger),
    Column("HC_UPDATED", BigInteger),
    Column("HC_DELETED", BigInteger),
    Column("HC_FILES", Integer, nullable=False),
    Column("HC_BYTES", BigInteger, nullable=False),
    Column("HC_USER", String(128), nullable=False),
    Column("HC_HOST", String(128), nullable=False),
    Column("HC_APPLICATION", String(256), nullable=False),
    Column("HC_STATEMENT", Text),
    Index("HIVEACID_COMMITS_WRITE_ID", "HC_TBL_ID", "HC_WRITEID", unique=True),
    Index("HIVEACID_COMMITS_TXN", "HC_TXNID"),
)
HIVEACID_DEFINITIONS: Final = Table(
    "HIVEACID_DEFINITIONS",
    METADATA,
    Column("HD_TBL_ID", BigInteger, primary_key=True),
    Column("HD_UNTIL", BigInteger, primary_key=True),
    Column("HD_COLUMNS", Text, nullable=False),
)
"""The columns that a table had before the place ``HD_UNTIL`` among the commits."""
HIVEACID_DROPPED_PARTITIONS: Final = Table(
    "HIVEACID_DROPPED_PARTITIONS",
    METADATA,
    Column("HX_TBL_ID", BigInteger, primary_key=True),
    Column("HX_UNTIL", BigInteger, primary_key=True),
    Column("HX_PARTITION", String(767), primary_key=True),
)
"""A partition that was there before the place ``HX_UNTIL``, and its files."""
HIVEACID_PARTITIONS_SINCE: Final = Table(
    "HIVEACID_PARTITIONS_SINCE",
    METADATA,
    Column("HA_TBL_ID", BigInteger, primary_key=True),
    Column("HA_SEQ", BigInteger, primary_key=True),
    Column("HA_PARTITION", String(767), primary_key=True),
    Column("HA_BEFORE", String(767)),
    Column("HA_TIME", BigInteger, nullable=False),
)
"""A partition that is there since the place ``HA_SEQ`` with rows of older commits: under another
name before (``HA_BEFORE``), or not at all. An empty name stands for all files that a table had when
it became transactional.
"""
HIVEACID_FLOORS: Final = Table(
    "HIVEACID_FLOORS",
    METADATA,
    Column("HF_TBL_ID", BigInteger, primary_key=True),
    Column("HF_PARTITION", String(767), primary_key=True),
    Column("HF_FIRST", BigInteger, nullable=False),
    Column("HF_BASE", BigInteger, nullable=False),
)
"""The base below which a cleaner has begun to remove files (of a table without partitions under an
empty name): a state that cannot be read from it on cannot be read any more.
"""
HIVEACID_PINS: Final = Table(
    "HIVEACID_PINS",
    METADATA,
    Column("HP_KIND", String(16), primary_key=True),
    Column("HP_NAME", String(256), primary_key=True),
    Column("HP_TBL_ID", BigInteger, primary_key=True),
    Column("HP_WRITEID", BigInteger, nullable=False),
    Column("HP_VALID", Text, nullable=False),
    Column("HP_MADE", BigInteger, nullable=False),
    Column("HP_EXPIRES", BigInteger),
    Index("HIVEACID_PINS_TABLE", "HP_TBL_ID"),
)
