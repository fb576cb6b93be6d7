"""What ``read_arrow`` adds to a table's columns: row ids, deleted rows, names of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session

pytestmark = pytest.mark.slow


def test_deleted_rows_say_so_and_who_deleted_them(acid: Session) -> None:
    acid.sql(
        "create table t (id int) partitioned by (p int) clustered by (id) into 3 buckets "
        "stored as orc tblproperties ('transactional'='true')"
    )
    table = acid.table("t")
    table.write_arrow([{"id": n, "p": n % 2} for n in range(12)])
    table.delete_arrow("id in (2, 3)")
    table.delete_arrow("id = 5")
    found = read_arrow(table, row_ids=True, deleted_rows=True, columns="id").read_all()
    assert found.column_names == ["id", "row__id", "row__is__deleted"]
    seen = {
        row["id"]: (row["row__id"]["writeid"], row["row__is__deleted"]) for row in found.to_pylist()
    }
    gone = {2: (2, True), 3: (2, True), 5: (3, True)}
    assert seen == dict.fromkeys(range(12), (1, False)) | gone
    then = read_arrow(table, deleted_rows=True, as_of_write_id=2).read_all()
    assert sum(then["row__is__deleted"].to_pylist()) == 2
    some = read_arrow(table, deleted_rows=True, filter="id = 5").read_all()
    assert some["row__is__deleted"].to_pylist() == [True]
    assert read_arrow(table, deleted_rows=True, columns=[]).read_all().num_columns == 1


def test_names_of_files_and_the_ids_of_insert_only_rows(acid: Session, tmp_path: Path) -> None:
    acid.sql(
        "create table t (id int) stored as parquet "
        "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    table, place = acid.table("t"), f"file:{tmp_path}/warehouse/t"
    name = f"000000_{table.definition.id}"
    table.write_arrow([{"id": 1}])
    table.write_arrow([{"id": 2}])
    found = read_arrow(table, row_ids=True, file_names=True).read_all().to_pylist()
    assert found == [
        {
            "id": n,
            "row__id": {"writeid": n, "bucketid": 0, "rowid": 0},
            "input__file__name": f"{place}/delta_000000{n}_000000{n}_0000/{name}",
        }
        for n in (1, 2)
    ]
    with pytest.raises(InvalidInputError, match="rows have no row__is__deleted"):
        read_arrow(table, deleted_rows=True)
    acid.sql("create table plain (id int) stored as orc")
    with pytest.raises(InvalidInputError, match="rows have no row__id"):
        read_arrow(acid.table("plain"), row_ids=True)
