"""Parquet and text files: as Hive wrote them, as we write them, and damaged."""

from __future__ import annotations

import bz2
import datetime
import gzip
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.errors import (
    AcidError,
    FormatError,
    InvalidInputError,
    MissingFileError,
    UnsupportedError,
)
from hiveacid.layout.directories import DataFile
from hiveacid.model.tables import Column, FileFormat, RowFormat, row_format
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.plain.writers import open_row_writer, write_no_rows
from hiveacid.storage.read import plain_read
from hiveacid.storage.target import FileKind

FS = FileSystem("/")


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, parse_type(kind)) for name, kind in types.items())


def written(path: Path, format: FileFormat, table: tuple[Column, ...], rows: pa.Table) -> Path:
    writer = open_row_writer(
        FS, str(path), format=format, columns=table, kind=FileKind.PLAIN, properties={}
    )
    for batch in rows.to_batches():
        writer.write_rows(batch)
    file = writer.close()
    assert file is not None
    assert (file.rows, file.size_bytes) == (rows.num_rows, path.stat().st_size)
    return path


def read(
    path: Path,
    table: tuple[Column, ...],
    format: FileFormat | None = None,
    row_format: RowFormat | None = None,
) -> list[dict[str, object]]:
    files = [DataFile(path.name, path.stat().st_size, 0)]
    batches = plain_read(
        FS,
        str(path.parent),
        files,
        table_columns=table,
        format=format,
        row_format=row_format or RowFormat(),
    )
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_parquet_file_is_of_hives_physical_types_and_says_how_times_are_meant(tmp_path):
    table = columns(
        ts="timestamp", de="decimal(10,2)", c="char(5)", ti="tinyint", l="array<char(3)>"
    )
    rows = pa.table(
        {
            "ts": [datetime.datetime(2020, 1, 2, 3, 4, 5)],
            "de": pa.array(["1.50"]).cast(pa.decimal128(10, 2)),
            "c": ["ab"],
            "ti": pa.array([1], pa.int8()),
            "l": [["x", None]],
        }
    )
    file = parquet.ParquetFile(written(tmp_path / "f", FileFormat.PARQUET, table, rows))
    kinds = [file.schema.column(i).physical_type for i in range(4)]
    assert kinds == ["INT96", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY", "INT32"]
    assert file.metadata.metadata[b"writer.time.zone"] == b"UTC"
    assert file.metadata.metadata[b"writer.date.proleptic"] == b"true"
    assert file.read().column("c").to_pylist() == ["ab"]
    assert file.read().column("l").to_pylist() == [["x", None]]
    row = read(tmp_path / "f", table)[0]
    assert (row["c"], row["l"]) == ("ab   ", ["x  ", None])


def foreign(path: Path, facts: dict[str, str], rows: pa.Table) -> Path:
    """A file of another writer with INT96 times, that says these things of itself."""
    with parquet.ParquetWriter(
        path, rows.schema, use_deprecated_int96_timestamps=True, store_schema=False
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(facts)
    return path


def test_dates_and_times_of_the_old_calendar_are_read_as_they_were_written(tmp_path):
    """0001-01-01 and 1500-01-02 as Hive 4.1 stores them without a proleptic calendar."""
    days = pa.array([-719164], pa.int32()).cast(pa.date32())
    instant = pa.array([datetime.datetime(1500, 1, 11, 3, 4, 5)], pa.timestamp("us"))
    facts = {"writer.date.proleptic": "false", "writer.time.zone": "UTC"}
    path = foreign(tmp_path / "f", facts, pa.table({"da": days, "ts": instant}))
    assert read(path, columns(da="date", ts="timestamp")) == [
        {"da": datetime.date(1, 1, 1), "ts": datetime.datetime(1500, 1, 2, 3, 4, 5)}
    ]  # fmt: skip


def test_times_before_1582_are_written_as_hive_reads_them_and_come_back(tmp_path):
    """Hive 4.1 read the instant of 1500-01-02 as 1499-12-24: INT96 is Julian to it."""
    times = [
        datetime.datetime(1500, 1, 2, 3, 4, 5, 123456),
        datetime.datetime(1, 1, 1),
        datetime.datetime(1500, 2, 28),
        datetime.datetime(1582, 10, 4, 23, 59, 59),
        datetime.datetime(1582, 10, 15),
        datetime.datetime(9999, 12, 31),
        None,
    ]
    table = columns(ts="timestamp", a="array<timestamp>")
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us")), "a": [[t] for t in times]})
    path = written(tmp_path / "f", FileFormat.PARQUET, table, rows)
    stored = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
    assert str(stored.column("ts")[0]) == "1500-01-11 03:04:05.123456"
    assert read(path, table) == [{"ts": t, "a": [t]} for t in times]


def test_times_are_the_wall_clock_of_the_writers_zone(tmp_path):
    instant = pa.array([datetime.datetime(2020, 1, 1, 15, 0)], pa.timestamp("us"))
    path = foreign(tmp_path / "f", {"writer.time.zone": "Asia/Tokyo"}, pa.table({"ts": instant}))
    assert read(path, columns(ts="timestamp")) == [{"ts": datetime.datetime(2020, 1, 2)}]


def test_times_of_whole_numbers_are_the_wall_clock_itself(tmp_path):
    """Hive 4.1 takes no word of a file on INT64 times: neither calendar nor zone."""
    times = [datetime.datetime(1500, 1, 2, 3, 4, 5), datetime.datetime(2020, 1, 1)]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us")), "a": [[t] for t in times]})
    facts = {"writer.date.proleptic": "false", "writer.time.zone": "Asia/Tokyo"}
    with parquet.ParquetWriter(tmp_path / "f", rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(facts)
    table = columns(ts="timestamp", a="array<timestamp>")
    assert read(tmp_path / "f", table) == [{"ts": t, "a": [t]} for t in times]


def test_times_inside_other_values_are_of_the_writers_zone_too(tmp_path):
    times = pa.array([datetime.datetime(2020, 1, 1, 15, 0)], pa.timestamp("us"))
    rows = pa.table({"a": [times.to_pylist()], "s": pa.StructArray.from_arrays([times], ["t"])})
    path = foreign(tmp_path / "f", {"writer.time.zone": "Asia/Tokyo"}, rows)
    then = datetime.datetime(2020, 1, 2)
    table = columns(a="array<timestamp>", s="struct<t:timestamp>")
    assert read(path, table) == [{"a": [then], "s": {"t": then}}]


def test_texts_and_bytes_of_any_kind_of_arrow_are_read(tmp_path):
    """Polars writes large ones, and says so; also inside other values."""
    texts = pa.array(["x", None], pa.large_string())
    rows = pa.table(
        {
            "s": texts,
            "b": pa.array([b"x", None], pa.large_binary()),
            "st": pa.StructArray.from_arrays([texts, texts.dictionary_encode()], ["t", "d"]),
            "l": pa.array([["x"], None], pa.large_list(pa.large_string())),
        }
    )
    parquet.write_table(rows, tmp_path / "f")
    table = columns(s="string", b="binary", st="struct<t:string,d:string>", l="array<string>")
    assert read(tmp_path / "f", table) == [
        {"s": "x", "b": b"x", "st": {"t": "x", "d": "x"}, "l": ["x"]},
        {"s": None, "b": None, "st": {"t": None, "d": None}, "l": None},
    ]


def test_a_type_that_hive_does_not_have_is_no_damage(tmp_path):
    parquet.write_table(pa.table({"u": pa.array([1], pa.uint32())}), tmp_path / "f")
    with pytest.raises(UnsupportedError, match=r"/f: column u: Hive has no type for .* uint32"):
        read(tmp_path / "f", columns(u="bigint"))


def test_parquet_goes_by_name_and_widens_and_text_goes_by_position(tmp_path):
    parquet.write_table(
        pa.table({"V": [b"x"], "ID": pa.array([1], pa.int32()), "more": [True]}), tmp_path / "p"
    )
    table = columns(id="bigint", v="string", new="int")
    assert read(tmp_path / "p", table) == [{"id": 1, "v": "x", "new": None}]
    (tmp_path / "t").write_bytes(b"1\x01x\x01\\N\n")
    assert read(tmp_path / "t", table) == [{"id": 1, "v": "x", "new": None}]


def test_a_format_that_is_not_named_is_told_by_the_first_bytes(tmp_path):
    table = columns(id="int", v="string")
    rows = pa.table({"id": pa.array([1, None], pa.int32()), "v": ["a", None]})
    for format in FileFormat:
        path = written(tmp_path / format.value, format, table, rows)
        assert read(path, table) == rows.to_pylist() == read(path, table, format)


@pytest.mark.slow
def test_text_is_read_in_pieces_that_end_with_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("hiveacid.storage.plain.readers._CHUNK_BYTES", 7)
    lines = [f"{i}\x01{'v' * (i % 12)}" for i in range(200)]
    table = columns(id="int", v="string")
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "t").write_bytes(end.join(lines).encode())
        found = read(tmp_path / "t", table, FileFormat.TEXT)
        assert found == [{"id": i, "v": "v" * (i % 12)} for i in range(200)]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("t.gz", gzip.compress), ("t.bz2", bz2.compress), ("t.deflate", zlib.compress)],
)
def test_compressed_text_and_header_lines(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(b"id\n1\n2\n"))
    found = read(tmp_path / name, columns(id="int"), FileFormat.TEXT, RowFormat(header_lines=1))
    assert found == [{"id": 1}, {"id": 2}]
    (tmp_path / name).write_bytes(pack(b"id\n1\n2\n")[:-9])
    with pytest.raises(FormatError):
        read(tmp_path / name, columns(id="int"), FileFormat.TEXT)


@pytest.mark.parametrize("lines", [1, 2])
def test_text_that_is_written_has_the_lines_that_readers_skip(tmp_path, lines):
    """Hive writes none, and shows fewer rows than it wrote."""
    table, properties = columns(id="int", v="string"), {"skip.header.line.count": str(lines)}
    writer = open_row_writer(
        FS, str(tmp_path / "f"), format=FileFormat.TEXT, columns=table, kind=FileKind.PLAIN,
        properties=properties,
    )  # fmt: skip
    for i in range(2):
        writer.write_rows(pa.record_batch({"id": pa.array([i], pa.int32()), "v": ["x"]}))
    assert writer.close().rows == 2
    assert (tmp_path / "f").read_bytes() == b"id\x01v" + b"\n" * lines + b"0\x01x\n1\x01x\n"
    found = read(tmp_path / "f", table, FileFormat.TEXT, row_format(properties))
    assert found == [{"id": 0, "v": "x"}, {"id": 1, "v": "x"}]


@pytest.mark.parametrize("ending", ["snappy", "lz4", "lzo"])
def test_text_compressed_in_forms_of_hadoops_own_is_refused(tmp_path, ending):
    """It was read as lines."""
    (tmp_path / f"t.{ending}").write_bytes(b"\0\0\0\x04\0\0\0\x06\x04\x0c1\n2\n")
    with pytest.raises(UnsupportedError, match=f"text compressed by {ending}"):
        read(tmp_path / f"t.{ending}", columns(id="int"), FileFormat.TEXT)


def test_no_rows_leave_no_file_and_an_overwrite_an_empty_one(tmp_path):
    table = columns(id="int")
    for format in (FileFormat.PARQUET, FileFormat.TEXT):
        path = tmp_path / format.value
        writer = open_row_writer(
            FS, str(path), format=format, columns=table, kind=FileKind.PLAIN, properties={}
        )
        assert writer.close() is None
        assert not path.exists()
        empty = write_no_rows(
            FS, str(path), format=format, columns=table, properties={}, events=False
        )
        assert empty.rows == 0 and read(path, table, format) == []
    assert (tmp_path / "textfile").stat().st_size == 0


def test_an_aborted_file_is_gone_and_a_wrong_property_is_told(tmp_path):
    table = columns(id="int")
    for format in (FileFormat.PARQUET, FileFormat.TEXT):
        writer = open_row_writer(
            FS, str(tmp_path / "f"), format=format, columns=table, kind=FileKind.PLAIN,
            properties={},
        )  # fmt: skip
        writer.write_rows(pa.record_batch({"id": pa.array([1], pa.int32())}))
        writer.abort()
        assert not (tmp_path / "f").exists()
    with pytest.raises(InvalidInputError, match=r"parquet\.compression"):
        open_row_writer(
            FS, str(tmp_path / "f"), format=FileFormat.PARQUET, columns=table,
            kind=FileKind.PLAIN, properties={"parquet.compression": "zip"},
        )  # fmt: skip


def test_damaged_parquet_is_an_error_of_ours_and_never_another(tmp_path):
    table = columns(id="int", v="string")
    rows = pa.table({"id": pa.array(range(500), pa.int32()), "v": [str(i) for i in range(500)]})
    good = written(tmp_path / "f", FileFormat.PARQUET, table, rows).read_bytes()
    rng = np.random.default_rng(3)
    for cut in np.linspace(0, len(good) - 1, 20).astype(int):
        (tmp_path / "cut").write_bytes(good[:cut])
        if cut:
            with pytest.raises(FormatError) as caught:
                read(tmp_path / "cut", table, FileFormat.PARQUET)
            assert caught.value.context["path"] == str(tmp_path / "cut")
    for place in rng.integers(0, len(good), 60):
        bad = bytearray(good)
        bad[place] ^= 0xFF
        (tmp_path / "bad").write_bytes(bytes(bad))
        try:
            found = read(tmp_path / "bad", table, FileFormat.PARQUET)
        except AcidError as error:
            assert isinstance(error, FormatError)
        else:
            assert len(found) == len(rows)
    with pytest.raises(MissingFileError):
        next(
            plain_read(
                FS, str(tmp_path), [DataFile("nosuch", 9, 0)], table_columns=table,
                format=FileFormat.PARQUET, row_format=RowFormat(),
            )
        )  # fmt: skip


def test_fewer_rows_of_a_parquet_file_than_it_says_are_an_error(tmp_path, monkeypatch):
    """Arrow ends without a word where one of the columns has no values, and others have."""
    table = columns(id="int")
    path = written(tmp_path / "f", FileFormat.PARQUET, table, pa.table({"id": [1, 2]}))
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: iter(()))
    with pytest.raises(FormatError, match="0 rows of 2"):
        read(path, table, FileFormat.PARQUET)
