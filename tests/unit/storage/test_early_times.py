"""Timestamps before 1970 with fractions, and of any year: written, and read by three readers."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.early_times import postponed
from hiveacid.storage.orc.tail import decompress, parse_message, read_tail
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
EPOCH = datetime(1970, 1, 1)
NESTED = "struct<t:timestamp,l:array<timestamp>,m:map<int,timestamp>>"


def in_last_second(value: datetime | None) -> bool:
    return value is not None and timedelta(seconds=-1) < value - EPOCH < timedelta(0)


MOMENTS = st.one_of(
    st.none(),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)),
    st.sampled_from([datetime(1969, 12, 31, 23, 59, 58, 250_000), datetime(1900, 1, 1)]),
).filter(lambda value: not in_last_second(value))


def write(path: Path, kind: str, batches: list[list[Any]], **properties: str) -> Column:
    column = Column("x", parse_type(kind))
    writer = BucketFileWriter(
        FS,
        str(path),
        columns=[column],
        kind=FileKind.BASE,
        properties={name.replace("_", "."): value for name, value in properties.items()},
    )
    with writer:
        for values in batches:
            array = pa.array(values, arrow_type(column.type))
            writer.write_rows(pa.record_batch([array], ["x"]))
    return column


def read(path: Path, column: Column) -> list[Any]:
    with BucketFileReader(FS, str(path)) as reader:
        return [
            value
            for batch in reader.batches(table_columns=[column], wanted=[0], identities=True)
            for value in batch.columns[0].to_pylist()
        ]


@pytest.mark.slow
@given(
    st.lists(st.lists(MOMENTS, min_size=1, max_size=40), min_size=1, max_size=4),
    st.sampled_from(["NONE", "ZLIB", "SNAPPY", "ZSTD"]),
    st.sampled_from(["0", "1000", "10000"]),
)
def test_any_timestamp_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[datetime | None]],
    compress: str,
    stride: str,
) -> None:
    path = tmp_path_factory.mktemp("times") / "bucket_00000"
    column = write(path, "timestamp", batches, orc_compress=compress, orc_row_index_stride=stride)
    assert read(path, column) == [value for batch in batches for value in batch]


@pytest.mark.slow
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "t": MOMENTS,
                "l": st.none() | st.lists(MOMENTS, max_size=3),
                "m": st.none() | st.lists(st.tuples(st.integers(0, 9), MOMENTS), max_size=2),
            }
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_timestamp_comes_back_at_any_depth(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("times") / "bucket_00000"
    column = write(path, NESTED, [rows])
    assert read(path, column) == rows


@pytest.mark.slow
def test_row_groups_and_stripes_stay_readable_and_their_statistics_hold(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    start = datetime(1959, 1, 1, 0, 0, 0, 250_000)
    late = [datetime(2000, 1, 1) + timedelta(seconds=n * 7919 % 10**6) for n in range(30_000)]
    early = [
        None if n % 7 == 0 else start + timedelta(seconds=n * 7919 % 10**8) for n in range(60_000)
    ]
    batches = [late, early[:30_000], early[30_000:]]
    column = write(
        path,
        "timestamp",
        batches,
        orc_compress_size="2048",
        orc_row_index_stride="1000",
        orc_stripe_size="100000",
    )
    assert read(path, column) == late + early
    assert [row["x"] for row in orc.ORCFile(str(path)).read().column("row").to_pylist()] == (
        late + early
    )
    tail = read_tail(FS, str(path))
    assert len(tail.stripes) > 1
    raw = decompress(
        tail.metadata_section, compression=tail.compression, block_bytes=tail.block_bytes
    )
    metadata = parse_message(proto.Metadata, raw, what="metadata")
    values = late + early
    for stripe, found in zip(tail.stripes, metadata.stripeStats, strict=True):
        part = values[stripe.first_row : stripe.first_row + stripe.rows]
        check_range(found.colStats[7], part)
    check_range(tail.footer.statistics[7], values)


def check_range(statistics: Any, values: list[datetime | None]) -> None:
    present = [(value - EPOCH) / timedelta(milliseconds=1) for value in values if value]
    times = statistics.timestampStatistics
    assert times.minimumUtc <= min(present)
    assert min(present) - times.minimumUtc <= 2000
    assert max(present) <= times.maximumUtc + 1
    assert times.maximumUtc - max(present) <= 2000


def test_the_last_second_before_1970_has_no_fractions_in_orc() -> None:
    with pytest.raises(UnsupportedError, match="last second before 1970"):
        postponed(pa.array([datetime(1969, 12, 31, 23, 59, 59, 500_000)], pa.timestamp("us")))


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nanoseconds"):
        postponed(pa.array([-1_500_000_001]).cast(pa.timestamp("ns")))
    with pytest.raises(ConversionError, match="17813"):
        postponed(pa.array([10**18]).cast(pa.timestamp("us")))


def test_microseconds_given_as_nanoseconds_are_written(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    column = Column("x", parse_type("timestamp"))
    values = pa.array([-1_500_000_000, 7]).cast(pa.timestamp("ns"))
    with BucketFileWriter(FS, str(path), columns=[column], kind=FileKind.BASE) as writer:
        with pytest.raises(UnsupportedError, match="nanoseconds"):
            writer.write_rows(pa.record_batch([values], ["x"]))
        writer.write_rows(pa.record_batch([values[:1]], ["x"]))
    assert read(path, column) == [datetime(1969, 12, 31, 23, 59, 58, 500_000)]


@pytest.mark.parametrize(
    ("zone", "stored", "expected"),
    [
        # between both midnights of 1970: the wall clock is before, the time after, or otherwise
        ("US/Pacific", "1969-12-31 16:00:07.451", "1969-12-31 16:00:08.451"),
        ("US/Pacific", "1969-12-31 16:00:08.000", "1969-12-31 16:00:08.000"),
        ("US/Pacific", "1969-12-31 23:59:58.500", "1969-12-31 23:59:59.500"),
        ("US/Pacific", "1969-12-31 15:59:58.500", "1969-12-31 15:59:58.500"),
        ("US/Pacific", "1970-01-01 00:00:00.500", "1970-01-01 00:00:00.500"),
        ("Asia/Tokyo", "1970-01-01 08:00:00.500", "1970-01-01 07:59:59.500"),
        ("Asia/Tokyo", "1970-01-01 09:00:00.500", "1970-01-01 09:00:00.500"),
        ("Asia/Tokyo", "1969-12-31 23:59:58.500", "1969-12-31 23:59:58.500"),
        ("UTC", "1969-12-31 23:59:58.500", "1969-12-31 23:59:58.500"),
        ("US/Pacific", "2015-01-01 00:00:00.500", "2015-01-01 00:00:00.500"),
        # before 1900 a zone is what it is now, not the local mean time
        ("US/Pacific", "1850-06-01 12:00:00.500", "1850-06-01 12:00:00.500"),
        ("US/Pacific", "1590-02-21 07:08:09.123", "1590-02-21 07:08:09.123"),
        ("Europe/Paris", "1850-06-01 12:00:00.500", "1850-06-01 12:00:00.500"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_early_times_are_those_of_the_writers_time_zone(
    tmp_path: Path, zone: str, stored: str, expected: str, nested: bool
) -> None:
    path = tmp_path / "bucket_00000"
    value, wanted = datetime.fromisoformat(stored), datetime.fromisoformat(expected)
    kind = "struct<a:array<timestamp>>" if nested else "timestamp"
    rows = [{"a": [value]}, None] if nested else [value, None]
    column = write(path, kind, [rows], orc_compress="NONE")
    set_writer_zone(path, zone)
    assert read(path, column) == ([{"a": [wanted]}, None] if nested else [wanted, None])


def set_writer_zone(path: Path, zone: str) -> None:
    """Make an uncompressed file of one stripe one that was written in another time zone."""
    data, tail = path.read_bytes(), read_tail(FS, str(path))
    stripe = tail.footer.stripes[0]
    start = stripe.offset + stripe.indexLength + stripe.dataLength
    footer = parse_message(
        proto.StripeFooter, data[start : start + stripe.footerLength], what="stripe footer"
    )
    footer.writerTimezone = zone
    whole = proto.Footer()
    whole.CopyFrom(tail.footer)
    whole.stripes[0].footerLength = len(footer.SerializeToString())
    postscript = proto.PostScript()
    postscript.CopyFrom(tail.postscript)
    postscript.footerLength = len(whole.SerializeToString())
    end = postscript.SerializeToString()
    path.write_bytes(
        data[:start]
        + footer.SerializeToString()
        + tail.metadata_section
        + whole.SerializeToString()
        + end
        + bytes([len(end)])
    )
