"""Table properties that mean something to ACID, typed, and what Hive refuses about them.

Keys are looked up in any case, as Hive does for those it knows (metastore.md 5.1). The
checks carry Hive's own messages (real-hive.md 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import AcidMode, FileFormat, Table, TableKind

TRANSACTIONAL: Final = "transactional"
TRANSACTIONAL_PROPERTIES: Final = "transactional_properties"
BUCKETING_VERSION: Final = "bucketing_version"
NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"
WORKER_POOL: Final = "hive.compactor.worker.pool"

CREATE_FAILED: Final = 40000
ALTER_FAILED: Final = 40013
"""Hive's return codes of a refused CREATE TABLE and ALTER TABLE."""

_FULL_ACID_WORDS = frozenset({"split_update", "hash_merge"})


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties of one table that the rooms act on.

    ``orc``, ``compactor``, ``thresholds`` and ``own`` keep what follows ``orc.``, ``compactor.``,
    ``compactorthreshold.`` and ``hiveacid.``; ``orc`` keeps its keys whole.
    """

    mode: AcidMode
    bucketing_version: int
    auto_compaction: bool = True
    cleanup: bool = True
    worker_pool: str | None = None
    orc: Mapping[str, str] = field(default_factory=dict)
    compactor: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def parse_properties(properties: Mapping[str, str]) -> TableProperties:
    """Read a table's properties; without ``bucketing_version`` it is one of Hive 2 (version 1).

    Raises:
        InvalidInputError: ``transactional_properties`` is not known.
    """
    lower = {key.lower(): value for key, value in properties.items()}
    return TableProperties(
        mode=acid_mode(properties, name=""),
        bucketing_version=2 if lower.get(BUCKETING_VERSION) == "2" else 1,
        auto_compaction=not _is_true(lower.get(NO_AUTO_COMPACTION)),
        cleanup=not _is_true(lower.get(NO_CLEANUP)),
        worker_pool=lower.get(WORKER_POOL),
        orc={key: value for key, value in lower.items() if key.startswith("orc.")},
        compactor=_below(properties, "compactor."),
        thresholds=_below(properties, "compactorthreshold."),
        own=_below(properties, "hiveacid."),
    )


def acid_mode(properties: Mapping[str, str], *, name: str) -> AcidMode:
    """How a table with these properties takes part in transactions; ``name`` is for the message.

    Raises:
        InvalidInputError: ``transactional_properties`` is not known.
    """
    lower = {key.lower(): value for key, value in properties.items()}
    if not _is_true(lower.get(TRANSACTIONAL)):
        return AcidMode.NONE
    text = lower.get(TRANSACTIONAL_PROPERTIES, "default").strip().lower()
    if text == "insert_only":
        return AcidMode.INSERT_ONLY
    if text == "default" or set(text.split("|")) <= _FULL_ACID_WORDS:
        return AcidMode.FULL
    raise InvalidInputError(
        f"Invalid transactional properties specified for {name} with the error "
        f"unknown value {text} for {TRANSACTIONAL_PROPERTIES}",
        code=CREATE_FAILED,
        table=name,
    )


def check_create(table: Table) -> dict[str, str]:
    """The properties with which a new table is stored, in Hive's form.

    ``transactional=false`` is dropped, full ACID gets ``transactional_properties=default``, every
    table ``bucketing_version=2`` unless it says otherwise.

    Raises:
        InvalidInputError: Hive would refuse the table, with its message.
    """
    name = str(table.name)
    properties = _canonical(table.properties)
    properties.setdefault(BUCKETING_VERSION, "2")
    flag = properties.get(TRANSACTIONAL)
    if flag is None:
        return properties
    if flag.lower() == "false":
        del properties[TRANSACTIONAL]
        properties.pop(TRANSACTIONAL_PROPERTIES, None)
        return properties
    if flag.lower() != "true":
        raise _refused(
            f"'transactional' property of TBLPROPERTIES may only have value 'true': {name}",
            CREATE_FAILED,
            name,
        )
    properties[TRANSACTIONAL] = "true"
    properties.setdefault(TRANSACTIONAL_PROPERTIES, "default")
    _check_mode(table, acid_mode(properties, name=name), CREATE_FAILED)
    return properties


def check_alter(table: Table, changes: Mapping[str, str | None]) -> dict[str, str]:
    """The properties after SET (a text) or UNSET (None) of ``changes``.

    Raises:
        InvalidInputError: Hive would refuse the change, with its message.
    """
    name = str(table.name)
    before = _canonical(table.properties)
    after = dict(before)
    for key, value in changes.items():
        known = _canonical_key(key)
        if value is None:
            after.pop(known, None)
        else:
            after[known] = value
    was, wanted = table.acid_mode, after.get(TRANSACTIONAL, "false").lower()
    touched = {_canonical_key(key) for key in changes}
    if was is not AcidMode.NONE:
        _check_stays_transactional(name, before, after, touched)
    elif wanted == "true":
        after[TRANSACTIONAL] = "true"
        after.setdefault(TRANSACTIONAL_PROPERTIES, "default")
        _check_mode(table, acid_mode(after, name=name), ALTER_FAILED)
    elif wanted != "false":
        raise _refused(
            f"'transactional' property of TBLPROPERTIES may only have value 'true': {name}",
            ALTER_FAILED,
            name,
        )
    return after


def _check_stays_transactional(
    name: str, before: Mapping[str, str], after: Mapping[str, str], touched: set[str]
) -> None:
    if after.get(TRANSACTIONAL, "").lower() != "true":
        if TRANSACTIONAL in after and TRANSACTIONAL_PROPERTIES not in touched:
            raise _refused(
                "Cannot change 'transactional' without 'transactional_properties'",
                CREATE_FAILED,
                name,
            )
        raise _refused(
            f"TBLPROPERTIES with 'transactional'='true' cannot be unset: {name}",
            ALTER_FAILED,
            name,
        )
    was = before.get(TRANSACTIONAL_PROPERTIES, "default").lower()
    becomes = after.get(TRANSACTIONAL_PROPERTIES, "default").lower()
    if was != becomes and (was, becomes) != ("insert_only", "default"):
        raise _refused(
            "TBLPROPERTIES with 'transactional_properties' cannot be altered "
            "after the table is created",
            ALTER_FAILED,
            name,
        )


def _check_mode(table: Table, mode: AcidMode, code: int) -> None:
    name = str(table.name)
    if table.kind is TableKind.EXTERNAL:
        raise _refused(
            f"{name} cannot be declared transactional because it's an external table", code, name
        )
    if mode is not AcidMode.FULL:
        return
    if table.format is not FileFormat.ORC:
        raise _refused(
            f"The table must be stored using an ACID compliant format (such as ORC): {name}",
            code,
            name,
        )
    if table.sort_columns:
        raise _refused(
            f"Table {name} cannot support full ACID functionality since it is sorted.", code, name
        )


_LOWER_CASE_KEYS = frozenset(
    {TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, BUCKETING_VERSION, NO_AUTO_COMPACTION, NO_CLEANUP}
)


def _canonical_key(key: str) -> str:
    return key.lower() if key.lower() in _LOWER_CASE_KEYS else key


def _canonical(properties: Mapping[str, str]) -> dict[str, str]:
    return {_canonical_key(key): value for key, value in properties.items()}


def _below(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    cut = len(prefix)
    return {key[cut:]: value for key, value in properties.items() if key.startswith(prefix)}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _refused(message: str, code: int, table: str) -> InvalidInputError:
    return InvalidInputError(message, code=code, table=table)
