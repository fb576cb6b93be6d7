"""Bucket files: what is written is read back, with Hive's metadata in the tail."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import (
    ConversionError,
    FormatError,
    InvalidInputError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from hiveacid.layout.events import EVENT_FIELDS
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.reading.export import dump
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc import output
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter, write_empty_file
from hiveacid.storage.orc.output import _Sink
from hiveacid.storage.orc.tail import Compression, parse_tail, read_tail, rewrite_tail
from hiveacid.storage.target import FileKind

FS: FileSystem = Files().at("/")[0]
BUCKET = 536870912
INT = Column("i", parse_type("int"))
TEXT = Column("s", parse_type("string"))


def batch(count: int, *, start: int = 0) -> pa.RecordBatch:
    numbers = np.arange(start, start + count, dtype=np.int32)
    return pa.record_batch([pa.array(numbers), pa.array([f"row {n}" for n in numbers])], ["i", "s"])


def write(
    path: Path, batches: Sequence[pa.RecordBatch], *, kind: FileKind = FileKind.INSERT, **more: Any
) -> None:
    with BucketFileWriter(
        FS,
        str(path),
        columns=more.pop("columns", (INT, TEXT)),
        kind=kind,
        write_id=more.pop("write_id", 3),
        bucket_property=more.pop("bucket_property", BUCKET),
        **more,
    ) as writer:
        for one in batches:
            writer.write_rows(one)


def metadata(path: Path) -> dict[str, str]:
    tail = read_tail(FS, str(path))
    return {key: value.decode() for key, value in tail.user_metadata.items()}


def test_insert_file_reads_back_with_ids_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(3), batch(2, start=3)])
    table = orc.ORCFile(str(path)).read()
    assert table.schema.names == [
        "operation",
        "originalTransaction",
        "bucket",
        "rowId",
        "currentTransaction",
        "row",
    ]
    assert table["operation"].to_pylist() == [0] * 5
    assert table["originalTransaction"].to_pylist() == [3] * 5
    assert table["currentTransaction"].to_pylist() == [3] * 5
    assert table["bucket"].to_pylist() == [BUCKET] * 5
    assert table["rowId"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["row"].to_pylist() == [{"i": i, "s": f"row {i}"} for i in range(5)]
    assert metadata(path) == {
        "hive.acid.key.index": f"3,{BUCKET},4;",
        "hive.acid.stats": "5,0,0",
        "hive.acid.version": "2",
    }


def test_tail_has_hives_settings_and_the_gregorian_calendar(tmp_path: Path) -> None:
    huge, most = {"orc.compress.size": f"{1 << 70}"}, (8 << 20) - 65536  # else the process ends
    asked = ((FileKind.INSERT, {}, 65536), (FileKind.BASE, {}, 262144), (FileKind.BASE, huge, most))
    for kind, properties, block in asked:
        path = tmp_path / f"{kind.value}{block}"
        write(path, [batch(3)], kind=kind, properties=properties)
        assert orc.ORCFile(str(path)).read(["row"]).num_rows == 3
        tail = read_tail(FS, str(path))
        assert tail.compression is Compression.ZLIB
        assert tail.block_bytes == block
        assert tail.row_index_stride == 10_000
        assert tail.footer.calendar == 2
        assert str(tail.root) == (
            "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,"
            "currentTransaction:bigint,row:struct<i:int,s:string>>"
        )


@pytest.mark.parametrize("kind", [FileKind.INSERT, FileKind.BASE])
def test_key_index_names_the_last_row_of_every_stripe(tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / "bucket_00000"
    small = {"orc.stripe.size": "100000", "orc.compress.size": "65536"}
    write(path, [batch(60_000)], kind=kind, properties=small)
    tail = read_tail(FS, str(path))
    assert len(tail.stripes) > 1
    ends = [stripe.first_row + stripe.rows - 1 for stripe in tail.stripes]
    assert metadata(path)["hive.acid.key.index"] == "".join(f"3,{BUCKET},{end};" for end in ends)
    assert metadata(path)["hive.acid.stats"] == "60000,0,0"
    assert ends[-1] == 59_999


def test_delete_file_has_null_rows_and_the_key_of_every_stripe(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    count = 150_000
    rng = np.random.default_rng(7)
    row_ids = np.sort(rng.choice(1 << 40, count, replace=False))
    with BucketFileWriter(
        FS,
        str(path),
        columns=(INT, TEXT),
        kind=FileKind.DELETE,
        write_id=9,
        properties={"orc.stripe.size": "60000", "orc.compress.size": "65536"},
    ) as writer:
        for start in range(0, count, 25_000):
            part = row_ids[start : start + 25_000]
            writer.write_deletes(
                pa.array(np.full(len(part), 3)),
                pa.array(np.full(len(part), BUCKET, dtype=np.int32)),
                pa.array(part),
            )
    tail = read_tail(FS, str(path))
    assert len(tail.stripes) > 1
    lasts = [row_ids[stripe.first_row + stripe.rows - 1] for stripe in tail.stripes]
    assert metadata(path) == {
        "hive.acid.key.index": "".join(f"3,{BUCKET},{last};" for last in lasts),
        "hive.acid.stats": f"0,0,{count}",
        "hive.acid.version": "2",
    }
    table = orc.ORCFile(str(path)).read()
    assert table["row"].null_count == count
    assert set(table["operation"].to_pylist()) == {2}
    assert set(table["currentTransaction"].to_pylist()) == {9}
    assert (table["rowId"].to_numpy() == row_ids).all()


def test_events_keep_their_identities(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    row = pa.array([{"i": 1, "s": "a"}, {"i": 2, "s": None}, {"i": 3, "s": "c"}]).cast(
        pa.struct([("i", pa.int32()), ("s", pa.string())])
    )
    events = pa.record_batch(
        [
            pa.array([0, 0, 0], pa.int32()),
            pa.array([1, 2, 2]),
            pa.array([BUCKET, BUCKET, BUCKET + 1], pa.int32()),
            pa.array([5, 0, 7]),
            pa.array([1, 2, 2]),
            row,
        ],
        names=["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"],
    )
    with BucketFileWriter(FS, str(path), columns=(INT, TEXT), kind=FileKind.BASE) as writer:
        writer.write_events(events.slice(0, 1))
        writer.write_events(events.slice(1))
    assert metadata(path)["hive.acid.key.index"] == f"2,{BUCKET + 1},7;"
    found = list(dump(str(path)))
    assert [event["rowId"] for event in found] == [5, 0, 7]
    assert [event["row"] for event in found] == row.to_pylist()


def test_plain_file_has_user_columns_only(tmp_path: Path) -> None:
    path = tmp_path / "000000_0"
    write(path, [batch(3)], kind=FileKind.PLAIN)
    assert metadata(path) == {}
    assert orc.ORCFile(str(path)).read().to_pylist() == batch(3).to_pylist()


def test_no_rows_leave_no_file(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(0)])
    assert not path.exists()


def test_empty_overwrite_file_has_the_schema_of_events_and_no_version(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write_empty_file(FS, str(path), columns=(INT, TEXT), properties={})
    assert metadata(path) == {"hive.acid.key.index": "", "hive.acid.stats": "0,0,0"}
    with BucketFileReader(FS, str(path)) as reader:
        assert reader.rows == 0
        assert reader.is_acid
    kinds = dict(zip(EVENT_FIELDS, orc.ORCFile(str(path)).schema.types, strict=True))
    assert kinds["row"] == pa.struct([("i", pa.int32()), ("s", pa.string())])


def test_all_types_round_trip(tmp_path: Path) -> None:
    types = {
        "boolean": True,
        "tinyint": -5,
        "smallint": 300,
        "int": -70_000,
        "bigint": 1 << 40,
        "float": 1.5,
        "double": -2.25,
        "string": "é你",
        "binary": b"\x00\xff",
        "date": date(1500, 1, 1),
        "timestamp": datetime(2024, 2, 29, 23, 59, 59, 123456),
        "decimal(38,10)": Decimal("-1234567890123456789.0123456789"),
        "char(4)": "ab  ",
        "varchar(3)": "abc",
        "array<varchar(2)>": ["ab", None],
        "map<string,char(3)>": [("k", "v  ")],
        "struct<a:int,b:array<struct<c:date>>>": {"a": 1, "b": [{"c": date(2020, 1, 1)}]},
    }
    columns = [Column(f"c{i}", parse_type(text)) for i, text in enumerate(types)]
    values = list(types.values())
    given = pa.record_batch(
        [
            pa.array([value, None, value])
            if "char" not in text
            else pa.array(
                [value, None, value],
                {
                    "array<varchar(2)>": pa.list_(pa.string()),
                    "map<string,char(3)>": pa.map_(pa.string(), pa.string()),
                }.get(text, pa.string()),
            )
            for text, value in types.items()
        ],
        names=[column.name for column in columns],
    )
    path = tmp_path / "bucket_00000"
    write(path, [given, given.slice(1)], columns=columns)
    with BucketFileReader(FS, str(path)) as reader:
        assert [str(kind) for _, kind in reader.fields] == [str(c.type) for c in columns]
        (read,) = reader.batches(
            table_columns=columns, wanted=range(len(columns)), identities=False
        )
    for column, value in zip(read.columns, values, strict=True):
        assert column.to_pylist() == [value, None, value, None, value]


def test_char_is_padded_and_varchar_cut_as_hive_does(tmp_path: Path) -> None:
    columns = [Column("c", parse_type("char(4)")), Column("v", parse_type("varchar(3)"))]
    path = tmp_path / "bucket_00000"
    given = pa.record_batch([pa.array(["é", "abcdef"]), pa.array(["é你xyz", "a"])], ["c", "v"])
    write(path, [given], columns=columns)
    rows = [event["row"] for event in dump(str(path))]
    assert rows == [{"c": "é   ", "v": "é你x"}, {"c": "abcd", "v": "a"}]


def test_sliced_structs_are_written_as_they_are(tmp_path: Path) -> None:
    column = Column("st", parse_type("struct<a:int,b:string>"))
    values = [{"a": i, "b": str(i)} if i != 4 else None for i in range(10)]
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    whole = pa.record_batch([pa.array(values, kind)], ["st"])
    path = tmp_path / "bucket_00000"
    write(path, [whole.slice(3, 4)], columns=[column])
    assert [event["row"]["st"] for event in dump(str(path))] == values[3:7]


def test_events_with_null_rows_between_others_keep_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    count = 5000
    rows = [None if n % 3 == 0 else {"i": n, "s": str(n)} for n in range(count)]
    columns = [
        pa.array([2 if row is None else 0 for row in rows], pa.int32()),
        pa.array([1] * count),
        pa.array([BUCKET] * count, pa.int32()),
        pa.array(range(count)),
        pa.array([1] * count),
        pa.array(rows, pa.struct([("i", pa.int32()), ("s", pa.string())])),
    ]
    names = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    with BucketFileWriter(FS, str(path), columns=(INT, TEXT), kind=FileKind.INSERT) as writer:
        writer.write_events(pa.record_batch(columns, names).slice(1))
    assert [event["row"] for event in dump(str(path))] == rows[1:]
    assert metadata(path)["hive.acid.stats"] == f"{count * 2 // 3},0,{(count - 1) // 3}"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("struct<o:struct<a:int>>", [{"o": {"a": 1}}, None, {"o": None}, {"o": {"a": 4}}]),
        ("array<struct<a:int>>", [[{"a": 1}], None, [{"a": 3}, None, {"a": 5}], []]),
        ("map<string,struct<a:int>>", [[("k", {"a": 1})], None, [("a", None), ("b", {"a": 2})]]),
        ("struct<l:array<string>>", [{"l": ["x"]}, None, {"l": None}, {"l": ["y", None]}]),
    ],
)
def test_nulls_inside_nested_values_stay_where_they_are(
    tmp_path: Path, kind: str, values: list[Any]
) -> None:
    column = Column("x", parse_type(kind))
    path = tmp_path / "bucket_00000"
    whole = pa.record_batch([pa.array(values, arrow_type(column.type))], ["x"])
    write(path, [whole, whole.slice(1)], columns=[column])
    with BucketFileReader(FS, str(path)) as reader:
        (read,) = reader.batches(table_columns=[column], wanted=[0], identities=False)
    assert read.columns[0].to_pylist() == values + values[1:]


def test_timestamps_of_another_unit_or_zone_are_accepted(tmp_path: Path) -> None:
    column = Column("t", parse_type("timestamp"))
    noon = datetime(2020, 6, 1, 12)
    path = tmp_path / "bucket_00000"
    micro = pa.record_batch([pa.array([noon, datetime(9999, 12, 31)], pa.timestamp("us"))], ["t"])
    zoned = pa.array([noon], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Europe/Berlin"))
    write(path, [micro, pa.record_batch([zoned], ["t"])], columns=[column])
    stamps = [event["row"]["t"] for event in dump(str(path))]
    assert stamps == [
        "2020-06-01 12:00:00.000000",
        "9999-12-31 00:00:00.000000",
        "2020-06-01 14:00:00.000000",
    ]


def test_wrong_values_and_widths_leave_no_file(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    bad = pa.record_batch([pa.array(["x"]), pa.array(["y"])], ["i", "s"])
    with pytest.raises(ConversionError):
        write(path, [batch(5), bad])
    assert not path.exists()
    with pytest.raises(InvalidInputError):
        write(path, [batch(5).select(["i"])])
    assert not path.exists()


def test_a_missing_directory_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        write(tmp_path / "none" / "bucket_00000", [batch(1)])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_a_storage_error() -> None:
    fs = _WithoutDelete("/")
    writer = BucketFileWriter(fs, "/dev/full", columns=(INT, TEXT), kind=FileKind.INSERT)
    with pytest.raises(StorageError) as caught, writer:
        writer.write_rows(batch(20_000))
        writer.close()
    assert caught.value.context["detail"] == "no-space"


class _WithoutDelete(FileSystem):
    """``/dev/full`` must survive the abort."""

    def delete_file(self, path: str) -> None:
        assert path == "/dev/full"


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_every_compression_reads_back_and_survives_a_rewrite(
    tmp_path: Path, compression: str
) -> None:
    path = tmp_path / "bucket_00000"
    columns = [Column(f"a_long_column_name_{i}", parse_type("int")) for i in range(300)]
    wide = pa.record_batch(
        [pa.array([i], pa.int32()) for i in range(300)], [c.name for c in columns]
    )
    write(path, [wide], columns=columns, properties={"orc.compress": compression})
    first = read_tail(FS, str(path))
    assert first.compression is Compression[compression]
    data = path.read_bytes()
    path.write_bytes(data[: -first.tail_bytes] + rewrite_tail(first, user_metadata={"k": b"v"}))
    second = read_tail(FS, str(path))
    assert second.user_metadata["k"] == b"v"
    assert second.user_metadata["hive.acid.stats"] == b"1,0,0"
    assert second.types == first.types
    assert len(second.stripe_statistics()) == 1
    assert list(orc.ORCFile(str(path)).read()["row"][0].as_py().values()) == list(range(300))


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zlib", "snappy", "lz4", "zstd"])
def test_compressed_tails_of_other_writers_are_read(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "other.orc"
    names = [f"column_{i}" for i in range(400)]
    table = pa.table([pa.array([i]) for i in range(400)], names=names)
    orc.write_table(table, str(path), compression=compression)
    tail = read_tail(FS, str(path))
    assert [name for name, _ in tail.root.fields] == names
    assert len(tail.stripe_statistics()[0]) == 401


@pytest.mark.parametrize("compression", ["ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_every_compression_compresses(tmp_path: Path, compression: str) -> None:
    columns = [Column("s", parse_type("string"))]
    words = pa.array([f"a text of many words {i * 7919 % 20_011}" for i in range(20_000)])
    texts = pa.record_batch([words], ["s"])
    sizes = {}
    for name in ("NONE", compression):
        write(tmp_path / name, [texts], columns=columns, properties={"orc.compress": name})
        sizes[name] = (tmp_path / name).stat().st_size
        found = orc.ORCFile(str(tmp_path / name)).read()["row"].combine_chunks().field("s")
        assert found.equals(texts.column(0))
    assert sizes[compression] < sizes["NONE"] / 2


@pytest.mark.parametrize("setting", ["LZO", "BROTLI"])
def test_compressions_that_cannot_be_written_are_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(UnsupportedError, match=r"orc\.compress"):
        write(tmp_path / "b", [batch(1)], properties={"orc.compress": setting})


def test_truncated_files_are_format_errors_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(2000)])
    data = path.read_bytes()
    for length in [*range(1, len(data), max(len(data) // 60, 1)), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(FormatError) as caught:
            list(dump(str(path)))
        assert caught.value.context["path"] == str(path)
        assert {"expected", "found"} <= set(caught.value.context)


def test_a_tail_behind_a_cut_body_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(2000)])
    data = path.read_bytes()
    path.write_bytes(data[:3] + data[2000:])
    with pytest.raises(FormatError):
        list(dump(str(path)))


@pytest.mark.parametrize("content", [b"PAR1....PAR1", b"1\x01a\n2\x01b\n", b"\x00" * 500, b"ORC"])
def test_foreign_files_are_format_errors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bucket_00000"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        list(dump(str(path)))


def test_missing_file_is_a_missing_file_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        list(dump(str(tmp_path / "bucket_00000")))


def test_a_prefix_that_is_a_file_reads_as_one(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(10)])
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"bytes of a stripe that is not flushed yet")
    assert len(list(dump(str(path), logical_bytes=size))) == 10
    assert list(dump(str(path), logical_bytes=0)) == []


def test_parse_tail_refuses_a_damaged_footer(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, [batch(10)])
    data = bytearray(path.read_bytes())
    tail = read_tail(FS, str(path))
    data[-tail.tail_bytes + 5 : -60] = b"\xff" * (tail.tail_bytes - 65)
    with pytest.raises(FormatError):
        parse_tail(bytes(data)).stripe_statistics()


@pytest.mark.parametrize("call", [1, 2, 5])
def test_ctrl_c_while_a_file_is_written_waits_for_the_orc_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Of what its file object raises that keeps the text only, or it ends the process."""
    path = tmp_path / "bucket_00000"
    calls = []
    before = signal.getsignal(signal.SIGINT)  # Spark's, where it runs in this process

    def interrupted(sink: _Sink, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return plain(sink, data)

    plain = _Sink.write
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_Sink, "write", interrupted)
        patch.setattr(output, "_BUFFER_BYTES", 1)
        write(path, [batch(3)])
    assert not path.exists()
    assert len(calls) >= call
    write(path, [batch(3)])
    assert signal.getsignal(signal.SIGINT) is before
