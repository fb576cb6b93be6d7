from __future__ import annotations

from hiveacid.model.commits import ColumnStatistics


def test_partitions_together() -> None:
    parts = [
        ColumnStatistics("c", "decimal(5,1)", 1, 3, decimal_low="9.5", decimal_high="10"),
        ColumnStatistics("c", "decimal(5,1)", 2, 5, decimal_low="10", decimal_high="9.9"),
    ]
    found = ColumnStatistics.together(parts)
    assert found == ColumnStatistics(
        "c", "decimal(5,1)", 3, 5, decimal_low="9.5", decimal_high="10"
    )
    texts = [
        ColumnStatistics("s", "string", 0, 2, average_length=2.0, longest=3),
        ColumnStatistics("s", "string", 0, None, average_length=4.0, longest=9),
    ]
    found = ColumnStatistics.together(texts)
    assert (found.distinct, found.average_length, found.longest) == (2, 3.0, 9)
    flags = [ColumnStatistics("b", "boolean", 0, trues=1, falses=0)] * 2
    assert ColumnStatistics.together(flags).trues == 2
