"""A database as Hive's schematool leaves it in PostgreSQL (schema 4.1), as far as it matters: the
tables that hiveacid uses, too, without those of its own, but with Hive's foreign keys, privileges
and constraints. ``tests.interop`` has the real one.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import create_engine, insert

from hiveacid.metastore.sql import catalog_schema, schema

_OF_OURS: Final = "HIVEACID_"
_CHILDREN: Final = {
    ("CDS", "CD_ID"): ("COLUMNS_V2", "SDS"),
    ("SERDES", "SERDE_ID"): ("SDS", "SERDE_PARAMS"),
    ("SDS", "SD_ID"): (
        *("BUCKETING_COLS", "PARTITIONS", "SD_PARAMS", "SKEWED_COL_NAMES"),
        *("SKEWED_COL_VALUE_LOC_MAP", "SORT_COLS", "TBLS"),
    ),
    ("DBS", "DB_ID"): ("DATABASE_PARAMS", "DB_PRIVS", "FUNCS", "TBLS"),
    ("TBLS", "TBL_ID"): (
        *("MV_TABLES_USED", "PARTITIONS", "PARTITION_KEYS", "TABLE_PARAMS", "TAB_COL_STATS"),
        *("TBL_COL_PRIVS", "TBL_PRIVS"),
    ),
    ("PARTITIONS", "PART_ID"): (
        *("PARTITION_KEY_VALS", "PARTITION_PARAMS", "PART_COL_PRIVS", "PART_COL_STATS"),
        "PART_PRIVS",
    ),
}
"""Tables by the key of another that they have."""
_ALONE: Final = {
    "DB_PRIVS": "DB_ID",
    "FUNCS": "DB_ID",
    "I_SCHEMA": "DB_ID",
    "MV_TABLES_USED": "TBL_ID",
    "PACKAGES": "DB_ID",
    "PART_COL_PRIVS": "PART_ID",
    "PART_PRIVS": "PART_ID",
    "SKEWED_COL_NAMES": "SD_ID",
    "SKEWED_COL_VALUE_LOC_MAP": "SD_ID",
    "SKEWED_VALUES": "SD_ID_OID",
    "STORED_PROCS": "DB_ID",
    "TBL_COL_PRIVS": "TBL_ID",
    "TBL_PRIVS": "TBL_ID",
}
"""Tables that only Hive uses, and what they say whom they belong to by."""
_KEY_CONSTRAINTS: Final = """
create table "KEY_CONSTRAINTS" (
    "CHILD_CD_ID" bigint, "CHILD_INTEGER_IDX" bigint, "CHILD_TBL_ID" bigint, "PARENT_CD_ID" bigint,
    "PARENT_INTEGER_IDX" bigint not null, "PARENT_TBL_ID" bigint not null,
    "POSITION" bigint not null, "CONSTRAINT_NAME" varchar(400) not null,
    "CONSTRAINT_TYPE" smallint not null, "UPDATE_RULE" smallint, "DELETE_RULE" smallint,
    "ENABLE_VALIDATE_RELY" smallint not null, "DEFAULT_VALUE" varchar(400),
    primary key ("CONSTRAINT_NAME", "PARENT_TBL_ID", "POSITION"))
"""


def make_hives_own(url: str, *, warehouse: str) -> None:
    """Let the metastore of hiveacid at ``url`` be one that Hive made; its managed tables go to
    ``warehouse``, external ones to a directory beside it.
    """
    engine = create_engine(url)
    with engine.begin() as connection:
        for name in sorted(schema.METADATA.tables):
            if name.startswith(_OF_OURS):
                connection.exec_driver_sql(f'drop table "{name}"')
        for table in schema.METADATA.tables.values():
            for index in table.indexes:
                if str(index.name).startswith(_OF_OURS) and not table.name.startswith(_OF_OURS):
                    connection.exec_driver_sql(f'drop index "{index.name}"')
        for name, column in _ALONE.items():
            connection.exec_driver_sql(f'create table "{name}" ("{column}" bigint not null)')
        connection.exec_driver_sql(_KEY_CONSTRAINTS)
        for (parent, key), children in _CHILDREN.items():
            for child in children:
                connection.exec_driver_sql(
                    f'alter table "{child}" add foreign key ("{key}") references "{parent}" '
                    f'("{key}") deferrable'
                )
        connection.exec_driver_sql(
            'alter table "SKEWED_VALUES" add foreign key ("SD_ID_OID") references "SDS" deferrable'
        )
        catalog = {"CTLG_ID": 1, "NAME": "hive", "LOCATION_URI": warehouse}
        connection.execute(insert(catalog_schema.CTLGS).values(catalog))
        connection.exec_driver_sql(
            'alter table "DBS" add foreign key ("CTLG_NAME") references "CTLGS" ("NAME")'
        )
        database = {"DB_ID": 1, "NAME": "default", "DB_LOCATION_URI": f"{warehouse}-external"}
        connection.execute(insert(catalog_schema.DBS).values(**database, CTLG_NAME="hive"))
        sequence = {
            "SEQUENCE_NAME": "org.apache.hadoop.hive.metastore.model.MDatabase",
            "NEXT_VAL": 11,
        }
        connection.execute(insert(catalog_schema.SEQUENCE_TABLE).values(sequence))
    engine.dispose()
