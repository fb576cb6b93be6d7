"""Table properties that mean something to ACID, typed.

Keys are looked up in any case, as Hive does for those it knows (metastore.md 5.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import AcidMode

TRANSACTIONAL: Final = "transactional"
TRANSACTIONAL_PROPERTIES: Final = "transactional_properties"
BUCKETING_VERSION: Final = "bucketing_version"
NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"
WORKER_POOL: Final = "hive.compactor.worker.pool"

DELTA_NUM: Final = "hive.compactor.delta.num.threshold"
DELTA_PCT: Final = "hive.compactor.delta.pct.threshold"
"""What may follow ``compactorthreshold.``."""

CREATE_FAILED: Final = 40000
"""Hive's return code of a refused CREATE TABLE."""

_THRESHOLD: Final = "compactorthreshold."
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
        thresholds=_below(properties, _THRESHOLD),
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


def threshold(properties: Mapping[str, str], key: str) -> float | None:
    """A table's own threshold (``DELTA_NUM``, ``DELTA_PCT``), None where it has none.

    Raises:
        InvalidInputError: it is no number, or negative.
    """
    own = {name.lower(): text for name, text in _below(properties, _THRESHOLD).items()}
    text = own.get(key)
    if text is None:
        return None
    try:
        number = int(text) if key == DELTA_NUM else float(text)
        if not 0 <= number < float("inf"):
            raise ValueError(text)
    except ValueError as error:
        kind = "a whole number" if key == DELTA_NUM else "a number"
        raise InvalidInputError(
            f"Table property '{_THRESHOLD}{key}' is {kind}, not negative: '{text}'",
            property=_THRESHOLD + key,
        ) from error
    return number


def _below(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    cut = len(prefix)
    return {key[cut:]: value for key, value in properties.items() if key.startswith(prefix)}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
