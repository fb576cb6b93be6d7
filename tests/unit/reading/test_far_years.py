"""Years that Hive, Arrow and Spark have and Python's dates have not: 0 and 10001."""

from __future__ import annotations

import pyarrow as pa
import pytest
from click.testing import CliRunner

from hiveacid import read_arrow
from hiveacid.cli.app import app
from hiveacid.errors import CardinalityError, ChangedSinceError
from hiveacid.session import Session
from hiveacid.storage.python_values import python_rows
from hiveacid.table import AcidTable

pytestmark = pytest.mark.slow
DAYS = pa.array([-719_528, 2_933_297, 0], pa.int32()).cast(pa.date32())
MICROS = pa.array([-62_167_219_200_000_000, 253_435_000_000_000_000, 0]).cast(pa.timestamp("us"))
FAR = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "d": DAYS, "at": MICROS})
SECOND = {"k": 2, "d": "10001-02-04", "at": "10001-01-13 11:06:40"}


@pytest.fixture
def far(acid: Session) -> AcidTable:
    acid.sql(
        "create table far (k int, d date, at timestamp) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    table = acid.table("far")
    table.insert(FAR)
    return table


@pytest.mark.parametrize("on", ["d", "at"])
def test_rows_are_merged_by_them(far: AcidTable, on: str) -> None:
    assert far.merge_arrow(FAR, on=on).updated == 3
    assert read_arrow(far).read_all().sort_by("k").select(["k", "d"]) == FAR.select(["k", "d"])
    with pytest.raises(CardinalityError, match=str(SECOND[on])):
        far.merge_arrow(pa.concat_tables([FAR.slice(1, 1)] * 2), on=on)


def test_messages_and_histories_show_them_as_texts(acid: Session, far: AcidTable) -> None:
    (change,) = acid.explain_row("far", where="k = 2").changes
    assert change.after == SECOND
    far.delete_arrow("k = 2")
    with pytest.raises(ChangedSinceError, match="10001-02-04"):
        acid.undo(next(one.txn for one in far.history() if int(one.write_id) == 1))


def test_the_command_line_shows_them(acid: Session, far: AcidTable) -> None:
    shown = CliRunner().invoke(app, ["read", "far", "--metastore", acid.client.metastore.url])
    assert shown.exit_code == 0, shown.output
    assert "10001-01-13 11:06:40" in shown.output


def test_within_lists_and_structs_they_are_texts_too() -> None:
    days = pa.StructArray.from_arrays([DAYS], ["d"])
    rows = pa.table({"l": pa.ListArray.from_arrays([0, 2, 3], days)})
    first = [{"d": "0000-01-01"}, {"d": "10001-02-04"}]
    assert python_rows(rows) == [{"l": first}, {"l": [{"d": "1970-01-01"}]}]
