"""The tables of the past, which Hive does not have: commits in their order, columns and partitions
of then, what cleaners have made unreadable, and what they must keep. A table stands there by its
number in the catalog, which a RENAME keeps and a new table of an old name does not have.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from hiveacid.metastore.sql.schema import METADATA

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
