"""Table properties: what they mean and what Hive refuses, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.model.compactions import COMPACTION_TRANSITIONS, CompactionState, CompactionType
from hiveacid.model.properties import check_alter, check_create, parse_properties
from hiveacid.model.tables import AcidMode, FileFormat, Table, TableKind, TableName

PLAIN = Table(TableName("default", "t"), (), "/t")
ACID = replace(PLAIN, properties={"transactional": "true", "transactional_properties": "default"})
MM = replace(PLAIN, properties={"transactional": "true", "transactional_properties": "insert_only"})


def test_properties_are_read_in_any_case() -> None:
    found = parse_properties(
        {
            "TRANSACTIONAL": "TRUE",
            "bucketing_version": "2",
            "NO_AUTO_COMPACTION": "true",
            "orc.compress": "ZLIB",
            "compactor.hive.compactor.x": "1",
            "compactorthreshold.hive.compactor.delta.num.threshold": "4",
            "hiveacid.y": "z",
        }
    )
    assert (found.mode, found.bucketing_version) == (AcidMode.FULL, 2)
    assert not found.auto_compaction and found.cleanup
    assert found.orc == {"orc.compress": "ZLIB"}
    assert found.compactor == {"hive.compactor.x": "1"}
    assert found.thresholds == {"hive.compactor.delta.num.threshold": "4"}
    assert found.own == {"y": "z"}


def test_table_without_a_bucketing_version_is_one_of_hive_2() -> None:
    assert parse_properties({}).bucketing_version == 1
    assert parse_properties({"bucketing_version": "-1"}).bucketing_version == 1


def test_create_completes_the_properties() -> None:
    table = replace(PLAIN, properties={"Transactional": "TRUE", "x": "y"})
    assert check_create(table) == {
        "transactional": "true",
        "transactional_properties": "default",
        "bucketing_version": "2",
        "x": "y",
    }
    dropped = replace(PLAIN, properties={"transactional": "false"})
    assert check_create(dropped) == {"bucketing_version": "2"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            replace(ACID, format=FileFormat.TEXT),
            "The table must be stored using an ACID compliant format (such as ORC): default.t",
        ),
        (
            replace(ACID, kind=TableKind.EXTERNAL),
            "default.t cannot be declared transactional because it's an external table",
        ),
        (
            replace(ACID, sort_columns=("id",)),
            "Table default.t cannot support full ACID functionality since it is sorted.",
        ),
        (
            replace(ACID, properties={"transactional": "maybe"}),
            "'transactional' property of TBLPROPERTIES may only have value 'true': default.t",
        ),
        (
            replace(
                ACID,
                properties={"transactional": "true", "transactional_properties": "nonsense"},
            ),
            "Invalid transactional properties specified for default.t with the error "
            "unknown value nonsense for transactional_properties",
        ),
    ],
)
def test_create_refuses_as_hive(table: Table, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_create(table)
    assert caught.value.message == message


def test_insert_only_tables_may_have_any_format_and_order() -> None:
    table = replace(MM, format=FileFormat.TEXT, sort_columns=("id",))
    assert check_create(table)["transactional_properties"] == "insert_only"


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (
            ACID,
            {"transactional": "false"},
            "Cannot change 'transactional' without 'transactional_properties'",
        ),
        (
            ACID,
            {"transactional": None},
            "TBLPROPERTIES with 'transactional'='true' cannot be unset: default.t",
        ),
        (
            ACID,
            {"transactional_properties": "insert_only"},
            "TBLPROPERTIES with 'transactional_properties' cannot be altered "
            "after the table is created",
        ),
        (
            replace(PLAIN, kind=TableKind.EXTERNAL),
            {"transactional": "true"},
            "default.t cannot be declared transactional because it's an external table",
        ),
    ],
)
def test_alter_refuses_as_hive(table: Table, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_alter(table, changes)
    assert caught.value.message == message


def test_alter_converts_sets_and_unsets() -> None:
    assert check_alter(PLAIN, {"transactional": "true"})["transactional_properties"] == "default"
    assert check_alter(ACID, {"x": "1"})["x"] == "1"
    assert "x" not in check_alter(replace(PLAIN, properties={"x": "1"}), {"x": None})
    after = check_alter(MM, {"transactional_properties": "default"})
    assert after["transactional_properties"] == "default"


def test_compaction_letters_and_transitions() -> None:
    assert [one.value for one in CompactionType] == ["a", "i", "r", "c"]
    assert "".join(one.value for one in CompactionState) == "iwrfsacx"
    assert set(COMPACTION_TRANSITIONS) == set(CompactionState)
    assert {one for one in CompactionState if one.is_queued} == {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.READY_FOR_CLEANING,
    }
    assert CompactionState.READY_FOR_CLEANING.phrase == "ready for cleaning"
    assert CompactionType.MINOR.thrift_value == 1
