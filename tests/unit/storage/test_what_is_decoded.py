"""How much of a file a reader decodes, and what it looks at to notice damage."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import FormatError
from hiveacid.storage.orc import damage
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.proto import ColumnStatistics
from hiveacid.table import Table

ROWS = 60_000


def wide_table(tmp_path: Path, clause: str, *, properties: str = "", step: int = 1) -> Table:
    """A table of ``ROWS`` rows of 100 characters; ``k`` goes up by ``step``, modulo ``ROWS``."""
    acid = hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "wh"))
    acid.sql(
        f"create table t (k bigint, v string) {clause} stored as orc"
        f" tblproperties ('transactional'='true', 'orc.compress'='NONE'{properties})"
    )
    table = acid.table("t")
    keys = pa.array([number * step % ROWS for number in range(ROWS)])
    wide = pa.array([f"{number:0100}" for number in range(ROWS)])
    table.write_arrow(pa.table({"k": keys, "v": wide}))
    return table


def counted_stripes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each stripe of which ``v`` is decoded from now on."""
    decoded: list[int] = []
    original = BucketFileReader._read_stripe

    def spy(self: BucketFileReader, reader: Any, number: int, names: list[str]) -> pa.RecordBatch:
        batch = original(self, reader, number, names)
        if "row.v" in names:
            decoded.append(batch.num_rows)
        return batch

    monkeypatch.setattr(BucketFileReader, "_read_stripe", spy)
    return decoded


@pytest.mark.parametrize(
    ("clause", "properties", "least", "most"),
    [
        ("clustered by (k) into 1 buckets", "", 1, 6_000),
        ("clustered by (k) into 1 buckets", ", 'Orc.Stripe.Size'='67108864'", ROWS, ROWS),
        ("", "", ROWS, ROWS),
    ],
    ids=["of buckets", "that says otherwise", "without buckets"],
)
def test_a_lookup_decodes_a_small_stripe_where_rows_are_looked_up_by_key(
    clause: str,
    properties: str,
    least: int,
    most: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = wide_table(tmp_path, clause, properties=properties, step=7919)
    decoded = counted_stripes(monkeypatch)
    found = hiveacid.read_arrow(table, filter="k = 7919").read_all()
    assert found.column("v").to_pylist() == [f"{1:0100}"]
    assert least <= sum(decoded) <= most


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_a_lookup_reads_the_delete_files_that_reach_its_stripe_once(
    compacted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    original = BucketFileReader._opened

    def spy(self: BucketFileReader, source: Any) -> Any:
        opened.append(self.path)
        return original(self, source)

    table = wide_table(tmp_path, "clustered by (k) into 2 buckets")
    if compacted:
        table.delete_arrow("k = 1")
        table.session.sql("alter table t compact 'major' and wait")
    deleted = [number * (ROWS // 30) for number in range(30)]
    for number in deleted:
        table.delete_arrow(f"k = {number}")
    monkeypatch.setattr(BucketFileReader, "_opened", spy)
    for number in deleted:
        keys = f"k in ({number}, {number + 3}, {number + 4})"
        rows = hiveacid.read_arrow(table, columns=["k"], filter=keys).read_all()
        assert sorted(rows.column("k").to_pylist()) == [number + 3, number + 4]
        deletes = [path for path in opened if "delete_delta" in path]
        assert 0 < len(deletes) <= 12
        assert len(deletes) == len(set(deletes))
        opened.clear()
    assert hiveacid.read_arrow(table).read_all().num_rows == ROWS - len(deleted) - compacted


def test_changes_decode_the_stripes_of_deleted_rows_and_open_the_deltas_of_their_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wide_table(tmp_path, "clustered by (k) into 1 buckets")
    table.delete_arrow("k in (40000, 40001)")
    for number in range(20):
        table.write_arrow([{"k": ROWS + number, "v": "new"}])
    decoded = counted_stripes(monkeypatch)
    assert hiveacid.read_changes(table, since=1, until=2).read_all().num_rows == 2
    assert 0 < sum(decoded) <= 6_000
    decoded.clear()
    assert hiveacid.read_changes(table, since=19).read_all().num_rows == 3
    assert decoded == [1, 1, 1]


def test_ends_of_decimals_are_not_compared_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ColumnStatistics()
    known.numberOfValues = 3
    known.decimalStatistics.minimum, known.decimalStatistics.maximum = "-7.5", "120"
    kind = pa.decimal128(15, 2)
    values = [Decimal("99.00"), Decimal("-7.50"), Decimal("3.25"), Decimal("120.00")]
    good = pa.array(values, kind)
    monkeypatch.setattr(damage.pc, "min_max", None)
    damage.check_column(good.slice(1), known, kind=14)
    for wrong in (good.slice(0, 3), pa.array([*values[1:3], Decimal("120.01")], kind)):
        with pytest.raises(FormatError, match=r"a (least|greatest) value"):
            damage.check_column(wrong, known, kind=14)
    monkeypatch.undo()
    known.numberOfValues = 2
    damage.check_column(pa.array([values[1], None, values[3]], kind), known, kind=14)
    with pytest.raises(FormatError, match="a greatest value"):
        damage.check_column(pa.array([values[1], None, values[0]], kind), known, kind=14)
