"""parse(format(x)) == x for every name, list, metadata text and type."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.layout import directories, events
from hiveacid.model.ids import (
    BucketCodec,
    ListKind,
    RangeValidity,
    RowId,
    ValidTxnList,
    ValidWriteIdList,
    encode_bucket,
)
from hiveacid.model.tables import LONG_MAX, LONG_MIN
from hiveacid.model.types import (
    BINARY,
    DOUBLE,
    TIMESTAMP_LOCAL_TZ,
    CharType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    UnionType,
    VarcharType,
    parse_type,
)

LONGS = st.integers(0, LONG_MAX)
BASES = st.builds(directories.BaseName, st.integers(LONG_MIN, LONG_MAX), LONGS)
DELTAS = st.builds(
    lambda ends, statement, txn, is_delete: directories.DeltaName(
        min(ends), max(ends), statement, txn, is_delete
    ),
    st.tuples(LONGS, LONGS),
    st.integers(-1, 100_000),
    LONGS,
    st.booleans(),
)
BUCKET_FILES = st.builds(
    directories.BucketFileName, st.integers(0, 10**7), st.none() | st.integers(0, 10**4)
)
ORIGINAL_FILES = st.builds(
    directories.OriginalFileName,
    st.integers(0, 10**7),
    st.integers(0, 100),
    st.none() | st.integers(0, 10**6).map(str) | st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
)
IDS = st.lists(st.integers(1, 60), max_size=30)
LEAVES = st.one_of(
    st.sampled_from([BINARY, DOUBLE, TIMESTAMP_LOCAL_TZ]),
    st.builds(CharType, st.integers(1, 255)),
    st.builds(VarcharType, st.integers(1, 65535)),
    st.integers(1, 38).flatmap(
        lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
    ),
)
FIELD_NAMES = (
    st.text(min_size=1, max_size=8)
    .map(str.lower)
    .filter(lambda name: name == name.lower() and "\x00" not in name)
)
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(ListType, inner),
        st.builds(MapType, LEAVES, inner),
        st.builds(UnionType, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(StructType, st.lists(st.tuples(FIELD_NAMES, inner), max_size=3).map(tuple)),
    ),
    max_leaves=8,
)
VALID_WRITE_IDS = st.builds(
    ValidWriteIdList.of,
    st.none() | st.sampled_from(["db.t", "default.long_name_1"]),
    hwm=st.integers(0, 60),
    open=IDS,
    aborted=IDS,
)


@given(BASES)
def test_base(name: directories.BaseName) -> None:
    assert directories.parse_directory(directories.format_base(name)) == name


@given(DELTAS)
def test_delta(name: directories.DeltaName) -> None:
    assert directories.parse_directory(directories.format_delta(name)) == name
    assert directories.parse_base(directories.format_delta(name)) is None


@given(BUCKET_FILES)
def test_bucket_file(name: directories.BucketFileName) -> None:
    text = directories.format_bucket_file(name)
    assert directories.parse_bucket_file(text) == name
    assert directories.bucket_of_file(text) == name.bucket
    assert directories.bucket_of_file(text + directories.FLUSH_LENGTH_SUFFIX) == -1


@given(ORIGINAL_FILES)
def test_original_file(name: directories.OriginalFileName) -> None:
    text = directories.format_original_file(name)
    assert directories.parse_original_file(text) == name
    assert directories.bucket_of_file(text) == name.bucket


@given(st.text())
def test_parsing_any_text_gives_a_name_or_none(text: str) -> None:
    for parse in (
        directories.parse_directory,
        directories.parse_bucket_file,
        directories.parse_original_file,
    ):
        parse(text)
    assert directories.bucket_of_file(text) >= -1


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=6).filter(lambda name: name.lower() == name),
            st.none()
            | st.text(min_size=1, max_size=12).filter(
                lambda value: value != directories.DEFAULT_PARTITION
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_partition(pairs: list[tuple[str, str | None]]) -> None:
    columns, values = [column for column, _ in pairs], [value for _, value in pairs]
    text = directories.partition_name(columns, values)
    assert directories.parse_partition_name(text) == tuple(
        (column.lower(), value) for column, value in pairs
    )
    assert text.count("/") == len(pairs) - 1


@given(VALID_WRITE_IDS)
def test_valid_write_ids(valid: ValidWriteIdList) -> None:
    assert ValidWriteIdList.parse(str(valid)) == valid
    compactor = valid.for_compactor()
    assert ValidWriteIdList.parse(str(compactor), kind=ListKind.COMPACTOR) == compactor


@given(st.builds(ValidTxnList.of, hwm=st.integers(0, 60), open=IDS, aborted=IDS))
def test_valid_txns(valid: ValidTxnList) -> None:
    assert ValidTxnList.parse(str(valid)) == valid


@given(VALID_WRITE_IDS, st.integers(1, 70), st.integers(0, 20))
def test_range_answers_what_its_ids_answer(
    valid: ValidWriteIdList, first: int, length: int
) -> None:
    ids = range(first, first + length + 1)
    count = sum(map(valid.is_valid, ids))
    expected = (
        RangeValidity.NONE
        if count == 0
        else RangeValidity.ALL
        if count == len(ids)
        else RangeValidity.SOME
    )
    assert valid.range_validity(ids[0], ids[-1]) is expected
    assert valid.all_valid(ids[0], ids[-1]) is (expected is RangeValidity.ALL)


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_bucket_property(bucket: int, statement: int) -> None:
    value = encode_bucket(bucket, statement)
    decoded = BucketCodec.decode(value)
    assert (decoded.bucket_id, decoded.statement_id) == (bucket, statement)
    assert value < 2**31


@given(st.lists(st.builds(RowId, LONGS, st.integers(0, 2**31 - 1), LONGS)))
def test_key_index(rows: list[RowId]) -> None:
    assert events.parse_key_index(events.format_key_index(rows)) == tuple(rows)


@given(st.builds(events.AcidStats, LONGS, LONGS, LONGS))
def test_stats(stats: events.AcidStats) -> None:
    assert events.parse_stats(str(stats)) == stats


@given(st.sampled_from(events.DataFormat))
def test_marker(data_format: events.DataFormat) -> None:
    assert events.parse_marker(events.format_marker(data_format), path="m") is data_format


@given(TYPES)
def test_type(kind: object) -> None:
    assert parse_type(str(kind)) == kind
