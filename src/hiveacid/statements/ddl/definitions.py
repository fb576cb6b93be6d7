"""Checks of table definitions: what CREATE TABLE and ALTER TABLE may say (metastore.md 5.1).

``checked`` returns the table with its properties as the metastore stores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import (
    COMPAT,
    DELTA_NUM,
    DELTA_PCT,
    FILE_NAMES,
    HISTORY_RETENTION,
    HIVE_3,
    HIVE_4,
    ISOLATION,
    RETENTION,
    AcidMode,
    BucketSpec,
    Column,
    FileFormat,
    Isolation,
    Table,
    TableKind,
    threshold,
)
from hiveacid.settings_parts import parse_seconds
from hiveacid.storage.target import check_bucket_count

_OURS: Final[Mapping[str, tuple[str, str]]] = {
    COMPAT: (HIVE_3, HIVE_4),
    ISOLATION: (Isolation.SNAPSHOT.value, Isolation.SERIALIZABLE.value),
}
"""Properties of ours, and the two values of each."""
_TIMES: Final = (RETENTION, HISTORY_RETENTION)


_CODEC: Final = "orc.compress"
NEW_CODEC: Final = "ZSTD"
"""Twice as fast to write as Hive's default and faster to read; Hive 4 reads it."""
_STRIPE: Final = "orc.stripe.size"
_STRIPE_OF_BUCKETED: Final = 2 << 20
"""A 32nd of Hive's default. A lookup by key decodes one stripe, of an insert delta an eighth of
this: some 17,000 rows of lineitem; a scan does not notice."""
_HIVE_3_CODECS: Final = ("NONE", "ZLIB", "SNAPPY", "LZO", "LZ4")
_EXTERNAL: Final = "EXTERNAL"
"""Hive makes a table external, or managed again, by this property; its case matters."""


def checked(table: Table) -> Table:
    """The table, fit to be created, with normal properties.

    Raises:
        InvalidInputError: 10043 (no columns but those of partitions), 10036, 10035 (repeated
            columns), 10126 (nested partition column), 10002 (unknown bucketing column), or a
            transactional property that the table cannot have.
    """
    if not table.columns:
        raise InvalidInputError(
            "Too many partition columns declared: a table needs one that is none"
            if table.partition_columns
            else "Either list of columns or a custom serializer should be specified",
            code=10043,
            table=str(table.name),
        )
    check_columns(table.columns, table.partition_columns)
    for column in table.partition_columns:
        if column.type.children:
            raise InvalidInputError(
                f"Partition column must be of primitive type. Found {column.name} of type: "
                f"{column.type}",
                code=10126,
                table=str(table.name),
                column=column.name,
            )
    _check_bucket_columns(table)
    properties = _transactional_properties(table)
    if table.bucket is not None:
        properties.setdefault("bucketing_version", str(table.bucket.version))
    result = replace(table, properties=properties, kind=_kind(table))
    check_acid(result)
    return result


def with_file_settings(table: Table) -> Table:
    """A new table's definition: its files are compressed by ZSTD, where Hive 3 is not to read them,
    and those of buckets, where rows are looked up, have small stripes; unless the table says
    otherwise. A table that has files keeps their codec: stripes are copied.
    """
    if table.acid_mode is AcidMode.NONE or table.format is not FileFormat.ORC:
        return table
    settings = {} if table.has_hive_3_names else {_CODEC: NEW_CODEC}
    if table.acid_mode is AcidMode.FULL and table.bucket_columns:
        settings[_STRIPE] = str(_STRIPE_OF_BUCKETED)
    named = {key.lower() for key in table.properties}
    new = {key: text for key, text in settings.items() if key not in named}
    return replace(table, properties={**table.properties, **new}) if new else table


def check_names_of_partitions(table: Table) -> None:
    """Of a table that is made, or whose partition columns change: Hive may have made others.

    Raises:
        UnsupportedError: a partition column is a timestamp with local time zone.
    """
    for column in table.partition_columns:
        if str(column.type) == "timestamp with local time zone":
            raise UnsupportedError(
                f"Partition column {column.name} is a {column.type}: what a partition is called"
                " would go by the time zone of the session",
                note="Partition by a timestamp, a date or a string.",
                table=str(table.name),
                column=column.name,
            )


def check_columns(columns: tuple[Column, ...], partition_columns: tuple[Column, ...]) -> None:
    """No column is there twice.

    Raises:
        InvalidInputError: 10036 among the columns, 10035 with a partition column.
    """
    names: set[str] = set()
    for column in columns:
        if column.name in names:
            raise InvalidInputError(f"Duplicate column name: {column.name}", code=10036)
        names.add(column.name)
    for column in partition_columns:
        if column.name in names:
            raise InvalidInputError(
                "Column repeated in partitioning columns", code=10035, column=column.name
            )
        names.add(column.name)


def _check_bucket_columns(table: Table) -> None:
    names = {column.name for column in table.columns}
    for column in (*table.bucket_columns, *(column.name for column in table.sort_columns)):
        if column not in names:
            raise InvalidInputError(
                f"Invalid column reference '{column}'", code=10002, column=column
            )


def _transactional_properties(table: Table) -> dict[str, str]:
    properties = _by_name(table.properties)
    _check_ours(properties)
    _check_codec(properties)
    value = properties.get("transactional")
    if value is None and "transactional_properties" in properties:
        raise InvalidInputError(
            f"Cannot specify transactional_properties without transactional: {table.name}",
            table=str(table.name),
        )
    if value is None:
        return properties
    if value.lower() == "false":
        del properties["transactional"]
        return properties
    if value.lower() != "true":
        raise InvalidInputError(
            f"'transactional' property of TBLPROPERTIES may only have value 'true': {table.name}",
            table=str(table.name),
        )
    properties["transactional"] = "true"
    kind = properties.setdefault("transactional_properties", "default").lower()
    if kind not in ("default", "insert_only"):
        raise InvalidInputError(
            f"Invalid transactional properties specified for {table.name} with the error unknown "
            f"value {kind} for transactional_properties",
            table=str(table.name),
        )
    properties["transactional_properties"] = kind
    return properties


def _by_name(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties under the keys by which they are stored.

    Raises:
        InvalidInputError: two spellings of one of ours, with two values.
    """
    named: dict[str, str] = {}
    for key, value in properties.items():
        name = _key(key)
        if name in _OURS and named.get(name, value).lower() != value.lower():
            raise InvalidInputError(
                f"'{name}' is both '{named[name]}' and '{value}'", property=name
            )
        named[name] = value
    return named


def _check_codec(properties: Mapping[str, str]) -> None:
    codec = next((text for key, text in properties.items() if key.lower() == _CODEC), "ZLIB")
    if properties.get(COMPAT, "").lower() == HIVE_3 and codec.upper() not in _HIVE_3_CODECS:
        raise InvalidInputError(
            f"Hive 3 reads no ORC files compressed by {codec}: '{COMPAT}'='{HIVE_3}' goes with "
            f"{', '.join(_HIVE_3_CODECS)}",
            property=_CODEC,
        )


def _key(key: str) -> str:
    """The keys that decide about ACID, and ours, are stored in lower case."""
    lower = key.lower()
    if lower == FILE_NAMES:
        return COMPAT
    return lower if lower in ("transactional", "transactional_properties", *_OURS, *_TIMES) else key


def _check_ours(properties: Mapping[str, str]) -> None:
    for name, (one, other) in _OURS.items():
        wanted = properties.get(name, one)
        if wanted.lower() not in (one, other):
            raise InvalidInputError(
                f"'{name}' is '{one}' or '{other}', not '{wanted}'", property=name
            )
    for key in (DELTA_NUM, DELTA_PCT):
        threshold(properties, key)
    for name in _TIMES:
        text = properties.get(name, "0")
        try:
            parse_seconds(text)
        except ValueError as error:
            raise InvalidInputError(
                f"'{name}' is a length of time ('12h', '7d', seconds), not '{text}'", property=name
            ) from error


def check_acid(table: Table) -> None:
    """Raise unless the table can be transactional as its properties say.

    Raises:
        InvalidInputError: external, not ORC, sorted, or of too many buckets.
    """
    mode = table.acid_mode
    if mode is AcidMode.NONE:
        return
    if table.kind is TableKind.EXTERNAL:
        raise InvalidInputError(
            f"{table.name} cannot be declared transactional because it's an external table",
            table=str(table.name),
        )
    if mode is not AcidMode.FULL:
        return
    if table.format is not FileFormat.ORC:
        raise InvalidInputError(
            f"The table must be stored using an ACID compliant format (such as ORC): {table.name}",
            table=str(table.name),
        )
    check_bucket_count(table)
    if table.sort_columns:
        raise InvalidInputError(
            f"Table {table.name} cannot support full ACID functionality since it is sorted.",
            table=str(table.name),
        )


def as_stored(table: Table) -> Table:
    """The table whose comment is one of its properties."""
    comment = {} if table.comment is None else {"comment": table.comment}
    properties = {**_by_name(table.properties), **comment}
    return replace(table, properties=properties, comment=None)


def altered(table: Table, changes: Mapping[str, str]) -> Table:
    """The table with these properties set; the result may be transactional where it was not.

    Raises:
        InvalidInputError: a change of ``transactional`` or ``transactional_properties`` that Hive
            refuses; no value of a property of ours.
    """
    changed = _by_name(changes)
    table = as_stored(table)
    if changed.get(COMPAT, "").lower() == HIVE_3 and table.properties.get(_CODEC) == NEW_CODEC:
        changed.setdefault(_CODEC, "ZLIB")
    _check_ours(changed)
    _check_codec({**table.properties, **changed})
    before = table.acid_mode
    if before is not AcidMode.NONE and changed.get(_EXTERNAL, "").lower() == "true":
        raise InvalidInputError(
            f"Unable to alter table. {table.name} cannot be converted to external table as it is "
            "transactional table.",
            code=40013,
            table=str(table.name),
        )
    if before is AcidMode.NONE:
        return checked(replace(table, properties={**table.properties, **changed}))
    value = changed.get("transactional")
    if value is not None and value.lower() != "true":
        if "transactional_properties" not in changed:
            raise InvalidInputError(
                "Cannot change 'transactional' without 'transactional_properties'",
                table=str(table.name),
            )
        raise InvalidInputError(
            f"TBLPROPERTIES with 'transactional'='true' cannot be unset: {table.name}",
            table=str(table.name),
        )
    kind = changed.get("transactional_properties")
    stored = table.properties.get("transactional_properties", "default")
    if kind is not None and kind.lower() != stored.lower():
        if before is AcidMode.INSERT_ONLY:
            try:
                return checked(replace(table, properties={**table.properties, **changed}))
            except InvalidInputError as error:
                raise InvalidInputError(
                    "Cannot convert an ACID table to non-ACID", code=40000, table=str(table.name)
                ) from error
        raise InvalidInputError(
            "TBLPROPERTIES with 'transactional_properties' cannot be altered after the table is "
            "created",
            code=40013,
            table=str(table.name),
        )
    return replace(table, properties={**table.properties, **changed})


def _kind(table: Table) -> TableKind:
    """Managed or external, as the property ``EXTERNAL`` says where it is there."""
    external = table.properties.get(_EXTERNAL)
    if external is None or table.kind is TableKind.VIEW:
        return table.kind
    return TableKind.EXTERNAL if external.lower() == "true" else TableKind.MANAGED


def without(table: Table, keys: tuple[str, ...], *, if_exists: bool) -> Table:
    """The table with these properties unset.

    Raises:
        InvalidInputError: ``transactional`` is among them; 10215 one is not there.
    """
    gone = {_key(key) for key in keys}
    table = as_stored(table)
    missing = sorted(gone - table.properties.keys())
    if missing and not if_exists:
        raise InvalidInputError(
            "Please use the following syntax if not sure whether the property existed or not: "
            "ALTER TABLE tableName UNSET TBLPROPERTIES IF EXISTS (key1, key2, ...) The following "
            f"property {missing[0]} does not exist in {table.name}",
            code=10215,
            table=str(table.name),
        )
    if table.acid_mode is not AcidMode.NONE and "transactional" in gone:
        raise InvalidInputError(
            f"TBLPROPERTIES with 'transactional'='true' cannot be unset: {table.name}",
            table=str(table.name),
        )
    kept = {key: value for key, value in table.properties.items() if key not in gone}
    kind = TableKind.MANAGED if _EXTERNAL in gone else table.kind
    return replace(table, properties=kept, kind=kind)


def bucket_spec(columns: Sequence[str], count: int | None) -> BucketSpec | None:
    """CLUSTERED BY as Python says it.

    Raises:
        InvalidInputError: columns without a count, a count without columns, or one below 1.
    """
    if bool(columns) != (count is not None):
        raise InvalidInputError("bucketed_by and buckets go together")
    if count is not None and count < 1:
        raise InvalidInputError(f"buckets is at least 1, not {count}", argument="buckets")
    return None if count is None else BucketSpec(tuple(map(str.lower, columns)), count)
