"""PURGE with conditions that only Spark can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hiveacid.compaction.purge import PurgeReport


@pytest.mark.long("compaction", "spark", "sql")
def test_a_condition_with_a_function_a_subquery_and_an_alias(acid: Any) -> None:
    acid.sql(
        "create table emp (id int, v string) partitioned by (k string) stored as orc tblproperties "
        "('transactional'='true', 'orc.compress'='NONE', 'hiveacid.retention'='7d')"
    )
    acid.sql("create table gone (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into gone values (1)")
    acid.sql("insert into emp values (1, 'secretA', 'x'), (2, 'SECRETB', 'x'), (3, 'stays', 'y')")
    root = Path(acid.table("emp").definition.location)
    before = sorted((root / "k=y").rglob("*"))
    found = acid.sql(
        "purge table emp e where e.id in (select id from gone) or lower(v) like 'secret%' wait 60"
    )
    assert isinstance(found, PurgeReport)
    assert (found.rows_deleted, found.rows_sought, found.rows_found) == (2, 2, 0)
    assert acid.table("emp").history()[0].facts.kind == "PURGE"
    assert [tuple(row) for row in acid.sql("select id, k from emp").collect()] == [(3, "y")]
    files = [one.read_bytes().lower() for one in root.rglob("*") if one.is_file()]
    assert not any(b"secret" in data for data in files)
    assert sorted((root / "k=y").rglob("*")) == before
    again = acid.table("emp").purge(where="lower(v) like 'secret%'", wait=60)
    assert (again.rows_deleted, again.removed) == (0, ())
