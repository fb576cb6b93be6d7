"""Definitions of tables: what properties become and what Hive refuses, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column, FileFormat, SortColumn, Table, TableKind, TableName
from hiveacid.model.types import parse_type
from hiveacid.statements.ddl.definitions import altered, check_names_of_partitions, checked, without

PLAIN = Table(TableName("default", "t"), (Column("id", parse_type("int")),), "/t")
ACID = replace(PLAIN, properties={"transactional": "true", "transactional_properties": "default"})
MM = replace(PLAIN, properties={"transactional": "true", "transactional_properties": "insert_only"})


def _changed(table: Table, changes: dict[str, str | None]) -> dict[str, str]:
    for key, value in changes.items():
        if value is None:
            table = without(table, (key,), if_exists=False)
        else:
            table = altered(table, {key: value})
    return dict(table.properties)


@pytest.mark.parametrize(
    ("key", "text"), [("num", "many"), ("num", "-1"), ("pct", "ten"), ("pct", "nan")]
)
def test_a_threshold_that_is_no_such_number_is_refused(key: str, text: str) -> None:
    properties = {f"compactorthreshold.hive.compactor.delta.{key}.threshold": text}
    with pytest.raises(InvalidInputError, match=f"not negative: '{text}'"):
        altered(ACID, properties)
    with pytest.raises(InvalidInputError, match=f"not negative: '{text}'"):
        checked(replace(PLAIN, properties=properties))


def test_partitions_are_called_the_same_in_every_session() -> None:
    moment = Column("at", parse_type("timestamp with local time zone"))
    of_hives = replace(ACID, partition_columns=(moment,))
    with pytest.raises(UnsupportedError, match="would go by the time zone of the session"):
        check_names_of_partitions(of_hives)
    assert altered(of_hives, {"x": "y"}).partition_columns == (moment,)
    assert checked(replace(ACID, columns=(moment,))).columns == (moment,)


def test_create_completes_the_properties() -> None:
    table = replace(PLAIN, properties={"Transactional": "TRUE", "x": "y"})
    assert dict(checked(table).properties) == {
        "transactional": "true",
        "transactional_properties": "default",
        "x": "y",
    }
    dropped = replace(PLAIN, properties={"transactional": "false"})
    assert dict(checked(dropped).properties) == {}


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
            replace(ACID, sort_columns=(SortColumn("id"),)),
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
        dict(checked(table).properties)
    assert caught.value.message == message


def test_insert_only_tables_may_have_any_format_and_order() -> None:
    table = replace(MM, format=FileFormat.TEXT, sort_columns=(SortColumn("id"),))
    assert checked(table).properties["transactional_properties"] == "insert_only"


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
        _changed(table, changes)
    assert caught.value.message == message


def test_alter_converts_sets_and_unsets() -> None:
    assert _changed(PLAIN, {"transactional": "true"})["transactional_properties"] == "default"
    assert _changed(ACID, {"x": "1"})["x"] == "1"
    assert "x" not in _changed(replace(PLAIN, properties={"x": "1"}), {"x": None})
    after = _changed(MM, {"transactional_properties": "default"})
    assert after["transactional_properties"] == "default"
