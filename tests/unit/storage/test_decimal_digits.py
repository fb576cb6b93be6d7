"""Decimals are stored without the zeros that all of them end in, and read as what they were."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.layout.events import FIRST_USER_COLUMN_ID, parse_key_index
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.decimal_digits import least_schema, words_of
from hiveacid.storage.orc.flushed_file import FlushedFile
from hiveacid.storage.orc.streams import FRACTION, MICROS, StripeStreams
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
BUCKET = 536870912
MANY = 1024
"""Rows of a batch: enough to tell what the column needs."""


def decimals(kind: str, unscaled: Sequence[int | None]) -> pa.Array:
    arrow = arrow_type(parse_type(kind))
    values = [None if n is None else Decimal(n).scaleb(-arrow.scale) for n in unscaled]
    return pa.array(values, arrow)


def write(
    path: Path, kind: str, batches: Sequence[pa.Array], *, file: FileKind = FileKind.BASE
) -> Column:
    column = Column("x", parse_type(kind))
    properties = {"orc.compress": "NONE", "orc.stripe.size": "20000"}
    with BucketFileWriter(
        FS, str(path), columns=[column], kind=file, write_id=1, bucket_property=BUCKET,
        properties=properties,
    ) as writer:  # fmt: skip
        for values in batches:
            writer.write_rows(pa.record_batch([values], ["x"]))
    return column


def read(path: Path, column: Column) -> pa.ChunkedArray:
    with BucketFileReader(FS, str(path)) as reader:
        batches = reader.batches(table_columns=[column], wanted=[0], identities=True)
        return pa.chunked_array([batch.columns[0] for batch in batches])


def stored_numbers(path: Path) -> list[bytes | None]:
    """The streams of the numbers and of their digits after the point, of every stripe."""
    tail = read_tail(FS, str(path))
    found: list[bytes | None] = []
    with FS.open_input(str(path)) as source:
        for number in range(len(tail.stripes)):
            streams = StripeStreams(source, tail, number)
            found += [streams.section(FIRST_USER_COLUMN_ID, kind) for kind in (1, 5)]
    return found


@pytest.mark.parametrize(
    ("kind", "step", "as_kind"),
    [
        ("decimal(15,2)", 100, "decimal(13,0)"),
        ("decimal(15,4)", 100, "decimal(13,2)"),
        ("decimal(38,18)", 10**18, "decimal(20,0)"),
        ("decimal(3,3)", 100, "decimal(1,1)"),
        ("decimal(10,2)", 1, "decimal(10,2)"),
        ("decimal(10,0)", 1000, "decimal(10,0)"),
    ],
)
def test_numbers_are_stored_as_those_of_a_type_with_fewer_digits(
    tmp_path: Path, kind: str, step: int, as_kind: str
) -> None:
    smaller = [n if n % 7 else None for n in range(-9, 9)] * 200
    unit = 10 ** (arrow_type(parse_type(kind)).scale - arrow_type(parse_type(as_kind)).scale)
    values = decimals(kind, [None if n is None else n * step for n in smaller])
    same = decimals(as_kind, [None if n is None else n * step // unit for n in smaller])
    column = write(tmp_path / "a", kind, [values])
    write(tmp_path / "b", as_kind, [same])
    assert stored_numbers(tmp_path / "a") == stored_numbers(tmp_path / "b")
    assert str(read_tail(FS, str(tmp_path / "a")).root.fields[-1][1]) == f"struct<x:{kind}>"
    assert read(tmp_path / "a", column).equals(pa.chunked_array([values]))
    assert orc.read_table(tmp_path / "a")["row"].combine_chunks().field(0).equals(values)


UNITS = st.sampled_from([1, 10, 100, 1000, 10**6])
BATCHES = st.lists(
    st.tuples(UNITS, st.sampled_from([0, 3, 100, MANY, 3 * MANY]), st.integers(0, 2**32)),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@given(
    BATCHES,
    st.sampled_from(["decimal(12,3)", "decimal(38,3)", "decimal(38,30)"]),
    st.sampled_from([FileKind.BASE, FileKind.INSERT, FileKind.PLAIN]),
)
def test_any_decimals_come_back_with_their_statistics_and_identities(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[int, int, int]],
    kind: str,
    file: FileKind,
) -> None:
    path = tmp_path_factory.mktemp("decimals") / "bucket_00000"
    given_batches = [random_decimals(kind, *one) for one in batches]
    column = write(path, kind, given_batches, file=file)
    expected = pa.concat_arrays(given_batches)
    if not len(expected):
        assert not path.exists()
        return
    table = orc.read_table(path)
    found = table["x"] if file is FileKind.PLAIN else table["row"].combine_chunks().field(0)
    assert pa.chunked_array(found if isinstance(found, pa.ChunkedArray) else [found]).equals(
        pa.chunked_array([expected])
    )
    tail = read_tail(FS, str(path))
    statistics = tail.footer.statistics[-1]
    assert statistics.numberOfValues == len(expected) - expected.null_count
    if statistics.numberOfValues:
        known = [value for value in expected.to_pylist() if value is not None]
        assert Decimal(statistics.decimalStatistics.minimum) == min(known)
        assert Decimal(statistics.decimalStatistics.maximum) == max(known)
    if file is not FileKind.PLAIN:
        assert read(path, column).combine_chunks().equals(expected)
        assert table["rowId"].to_pylist() == list(range(len(expected)))
        ends = [stripe.first_row + stripe.rows - 1 for stripe in tail.stripes]
        index = parse_key_index(tail.user_metadata["hive.acid.key.index"].decode())
        assert [key.row_id for key in index] == ends


def random_decimals(kind: str, unit: int, count: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-(10**6), 10**6, count) // unit * unit
    return decimals(kind, [None if n % 11 == 0 else int(n) for n in numbers])


def test_a_number_beyond_64_bits_comes_back(tmp_path: Path) -> None:
    values = decimals("decimal(38,2)", [100 * 10**30, 2 * 100, -(100 * 10**35)] * MANY)
    column = write(tmp_path / "a", "decimal(38,2)", [values])
    assert read(tmp_path / "a", column).equals(pa.chunked_array([values]))


@pytest.mark.parametrize("first", [100, 999])
def test_numbers_beyond_their_precision_come_back(tmp_path: Path, first: int) -> None:
    """Sums by Arrow before 17 may have more digits than their type."""
    path = tmp_path / "bucket_00000"
    write(path, "decimal(3,2)", [beyond("decimal(3,2)", n) for n in (first, 99_900)])
    values = orc.read_table(path)["row"].combine_chunks().field(0).to_pylist()
    assert values == [Decimal(first).scaleb(-2)] * MANY + [Decimal(999)] * MANY


def beyond(kind: str, unscaled: int) -> pa.Array:
    words = np.array([unscaled, 0] * MANY, np.int64)
    return pa.Array.from_buffers(arrow_type(parse_type(kind)), MANY, [None, pa.py_buffer(words)])


def test_the_first_batch_is_looked_at_where_it_lies() -> None:
    numbers = np.array([100, 0] * 10**5, np.int64)
    kind = pa.decimal128(9, 2)
    table = pa.table({"d": pa.Array.from_buffers(kind, 10**5, [None, pa.py_buffer(numbers)])})
    default = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(default)
    pa.set_memory_pool(pool)
    try:
        assert least_schema(table).field("d").type == pa.decimal128(7, 0)
    finally:
        pa.set_memory_pool(default)
    assert pool.max_memory() == 0


def test_fractions_of_times_stay_with_their_rows_where_digits_become_more(tmp_path: Path) -> None:
    columns = [Column("t", parse_type("timestamp")), Column("d", parse_type("decimal(9,2)"))]
    path = tmp_path / "bucket_00000"
    early = np.datetime64("1960-01-01T00:00:00", "us").astype(np.int64)
    with BucketFileWriter(FS, str(path), columns=columns, kind=FileKind.BASE) as writer:
        for part, step in enumerate((100, 1, 100)):
            rows = np.arange(part * MANY, (part + 1) * MANY)
            times = pa.StructArray.from_arrays(
                [
                    pa.array(early + rows, pa.timestamp("us")),
                    pa.array((rows % 1000).astype(np.int16)),
                ],
                [MICROS, FRACTION],
            )
            numbers = decimals("decimal(9,2)", [int(n) * step for n in rows])
            writer.write_rows(pa.record_batch([times, numbers], ["t", "d"]))
    assert len(read_tail(FS, str(path)).stripes) == 2
    row = orc.read_table(path)["row"].combine_chunks()
    rows = np.arange(3 * MANY)
    expected = (early + rows) * 1000 + rows % 1000
    assert row.field(0).cast(pa.int64()).to_numpy().tolist() == expected.tolist()
    assert row.field(1).to_pylist()[-1] == Decimal(3 * MANY - 1)
    assert row.field(1).to_pylist()[MANY] == Decimal(MANY).scaleb(-2)


def test_transactions_of_a_stream_may_differ_in_digits(tmp_path: Path) -> None:
    column = Column("x", parse_type("decimal(9,2)"))
    path = tmp_path / "bucket_00000"
    file = FlushedFile(FS, str(path), columns=[column], bucket_property=BUCKET, properties={})
    expected = []
    for write_id, steps in enumerate([(100,), (100, 1), (1,)], start=1):
        file.begin(write_id)
        for step in steps:
            values = decimals("decimal(9,2)", [n * step for n in range(MANY)])
            file.write_rows(pa.record_batch([values], ["x"]))
            expected.append(values)
        file.flush()
    file.close()
    assert read(path, column).combine_chunks().equals(pa.concat_arrays(expected))
    assert len(read_tail(FS, str(path)).stripes) == 4


def test_a_time_that_is_set_back_after_the_digits_became_more(tmp_path: Path) -> None:
    columns = [Column("t", parse_type("timestamp")), Column("d", parse_type("decimal(9,2)"))]
    path = tmp_path / "bucket_00000"
    times = [datetime(2000, 1, 1), datetime(2000, 1, 1), datetime(1950, 1, 1, 0, 0, 0, 5)]
    with BucketFileWriter(FS, str(path), columns=columns, kind=FileKind.BASE) as writer:
        for time, step in zip(times, (100, 1, 1), strict=True):
            moments = pa.array([time] * MANY, pa.timestamp("us"))
            numbers = decimals("decimal(9,2)", [n * step for n in range(MANY)])
            writer.write_rows(pa.record_batch([moments, numbers], ["t", "d"]))
    row = orc.read_table(path)["row"].combine_chunks()
    found = row.field(0).cast(pa.timestamp("us")).to_pylist()
    assert found == [time for time in times for _ in range(MANY)]


@pytest.mark.parametrize("buffer", [None, b"", b"1234"])
def test_no_numbers_have_no_words_whatever_arrow_keeps_of_them(buffer: bytes | None) -> None:
    kept = None if buffer is None else pa.py_buffer(buffer)
    array = pa.Array.from_buffers(pa.decimal128(10, 2), 0, [None, kept])
    assert [len(words) for words in words_of(array)] == [0, 0]
