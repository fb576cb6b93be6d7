"""Relations are kept for the same files only."""

from __future__ import annotations

import pytest

from hiveacid.spark import session
from hiveacid.spark.session import Chosen, kept


@pytest.fixture
def relation(monkeypatch):
    """``kept``, where each relation that is loaded is an object of its own."""
    monkeypatch.setattr(session, "_KEPT", type(session._KEPT)())
    return lambda *files, spark="one", schema="{}": kept(spark, schema, files, object)


def test_the_same_files_are_loaded_once_and_others_by_themselves(relation):
    first = relation(("/t/a", 10, 1), ("/t/b", 20, 2))
    assert relation(("/t/a", 10, 1), ("/t/b", 20, 2)) is first
    others = [
        relation(("/t/a", 10, 1)),
        relation(("/t/a", 10, 1), ("/t/b", 21, 2)),
        relation(("/t/a", 10, 1), ("/t/b", 20, 3)),
        relation(("/t/a", 10, 1), ("/t/b", 20, 2), spark="another session"),
        relation(("/t/a", 10, 1), ("/t/b", 20, 2), schema='{"another": "schema"}'),
    ]
    assert len({id(one) for one in (first, *others)}) == 6
    assert relation(("/t/a", 10, 1), ("/t/b", 20, 2)) is first


def test_files_of_unknown_age_and_very_many_are_loaded_each_time(relation):
    unknown = ("/t/a", 10, 1), ("/t/b", 20, 0)
    many = [(f"/t/{number}", 10, 1) for number in range(1_001)]
    assert relation(*unknown) is not relation(*unknown)
    assert relation(*many) is not relation(*many)
    assert session._KEPT == {}


def test_only_the_relations_used_last_are_kept(relation):
    first, second = relation(("/t/0", 10, 1)), relation(("/t/1", 10, 1))
    for number in range(2, 33):
        assert relation(("/t/0", 10, 1)) is first
        relation((f"/t/{number}", 10, 1))
    assert relation(("/t/0", 10, 1)) is first
    assert relation(("/t/1", 10, 1)) is not second
    assert len(session._KEPT) == 32


def test_what_is_chosen_is_a_query_in_brackets():
    chosen = Chosen(object(), ["row.a as a", "row.b as b"], "rowId >= 0")
    assert chosen.over("t") == "(select row.a as a, row.b as b from t where rowId >= 0)"
