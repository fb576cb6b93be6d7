"""Every kind of damaged file in every kind of directory: the right rows, or a FormatError that
names the file. What ORC cannot tell is said here: see ``may_differ``.

The cases run in a process of their own, so that a crash of Arrow's C++ code would be a failure
with a number, not the end of the tests.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.sampling import first_letter, sampled

from hiveacid.errors import FormatError
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import Column
from hiveacid.model.types import CharType, DecimalType, PrimitiveType
from hiveacid.reading.rows import read_arrow
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.target import FileKind

pytestmark = pytest.mark.long("model", "reading", "storage")

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
FS, _ = Files().at("/")
COLUMNS = (
    Column("id", PrimitiveType("int")),
    Column("name", PrimitiveType("string")),
    Column("pay", DecimalType(9, 2)),
    Column("day", PrimitiveType("date")),
    Column("code", CharType(3)),
    Column("x", PrimitiveType("double")),
    Column("flag", PrimitiveType("boolean")),
)
FLIPS = 300
"""Damaged copies for each kind of table."""


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "name": [None if i % 7 == 0 else f"name {i}" for i in numbers],
            "pay": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(9, 2)),
            "day": pa.array([date(2020, 1, 1 + i % 28) for i in numbers]),
            "code": [f"c{i % 10}" for i in numbers],
            "x": [i / 3 for i in numbers],
            "flag": [i % 2 == 0 for i in numbers],
        }
    )


def put(
    directory: Path,
    *,
    kind: FileKind = FileKind.INSERT,
    write_id: int = 1,
    name: str = "bucket_00000_0",
    first: int = 0,
    deletes: int = 0,
    compress: str = "ZLIB",
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with BucketFileWriter(
        FS,
        str(directory / name),
        columns=COLUMNS,
        kind=kind,
        write_id=write_id,
        bucket_property=encode_bucket(0, 0),
        properties={"orc.compress": compress},
    ) as writer:
        if kind is FileKind.DELETE:
            writer.write_deletes(
                pa.array([1] * deletes, pa.int64()),
                pa.array([encode_bucket(0, 0)] * deletes, pa.int32()),
                pa.array(range(0, 2 * deletes, 2), pa.int64()),
            )
        else:
            for at in range(first, first + 40, 20):
                writer.write_rows(rows(at, 20).to_batches()[0])


def full(root: Path, compress: str) -> None:
    put(root / "delta_0000001_0000001_0000", compress=compress)
    put(root / "delta_0000002_0000002_0000", write_id=2, first=100, compress=compress)
    put(
        root / "delete_delta_0000003_0000003_0000",
        kind=FileKind.DELETE,
        write_id=3,
        name="bucket_00000",
        deletes=9,
        compress=compress,
    )


def make(kind: str, root: Path) -> None:
    if kind.startswith("full"):
        full(root, kind.partition(" ")[2])
    elif kind == "base":
        put(root / "base_0000005", kind=FileKind.BASE)
    elif kind == "originals":
        put(root, kind=FileKind.PLAIN, name="000000_0")
        put(root, kind=FileKind.PLAIN, name="000001_0", first=50)
    elif kind == "insert-only":
        put(root / "delta_0000001_0000001_0000", kind=FileKind.PLAIN, name="000000_0")
    elif kind == "parquet":
        directory = root / "delta_0000001_0000001_0000"
        directory.mkdir(parents=True)
        pq.write_table(rows(0, 40), directory / "000000_0", write_page_checksum=True)
    else:
        shutil.copytree(GOLDEN / kind / "data", root)


KINDS = (
    "full ZLIB", "full NONE", "full SNAPPY", "full ZSTD", "full LZ4", "base", "originals",
    "insert-only", "parquet", "a02_update_delete", "a07_major_preclean",
)  # fmt: skip


def data_files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file() and p.name[0] not in "_.")


def read(root: Path) -> pa.Table:
    """All rows, with columns named by position, decimals as doubles, chars without blanks: by path
    names, lengths and precisions are only in the footers, and nothing else tells them.
    """
    found = read_arrow(str(root)).read_all()
    found.validate(full=True)
    columns = []
    for column in found.columns:
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        columns.append(pc.utf8_rtrim(column, " ") if pa.types.is_string(column.type) else column)
    return pa.table(columns, names=[str(i) for i in range(len(columns))])


def damaged(data: bytes, chance: random.Random) -> tuple[bytes, int]:
    """A damaged copy, and the first byte that differs."""
    copy = bytearray(data)
    at = chance.randrange(len(data))
    if chance.random() < 0.5:  # where the structure is
        at = max(0, len(data) - 1 - min(int(chance.expovariate(1 / 150)), len(data) - 1))
    what = chance.random()
    if what < 0.6:
        copy[at] ^= 1 << chance.randrange(8)
    elif what < 0.8:
        copy[at] = (copy[at] + chance.randrange(1, 256)) % 256
    elif what < 0.9:
        del copy[at : at + chance.randrange(1, 9)]
    else:
        copy[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(copy), at


def structure(path: Path) -> list[tuple[int, int]]:
    """The places of an ORC file that hold no values: stripe footers, then the tail."""
    tail = read_tail(FS, str(path))
    size = path.stat().st_size
    found = [
        (s.offset + s.indexLength + s.dataLength, s.offset + s.indexLength + s.dataLength
         + s.footerLength)
        for s in tail.footer.stripes
    ]  # fmt: skip
    return [*found, (size - tail.tail_bytes, size)]


def may_differ(places: list[tuple[int, int]], at: int) -> bool:
    """Whether ORC leaves damage at a byte untold: only among the values themselves.

    There are no checksums. Told is what breaks the compression or an encoding, or changes a
    stripe's number of values, integers' least, greatest and sum, texts' bytes, trues, dates',
    doubles' and decimals' least and greatest. Parquet's pages have checksums, their headers and
    the footer have none.
    """
    return not any(start <= at < end for start, end in places)


def fuzz(kind: str, root: Path, *, seed: int, count: int) -> Iterator[tuple[int, str]]:
    """Case numbers and what came of each; every case starts from the whole table."""
    make(kind, root)
    expected = read(root)
    files = data_files(root)
    places = {f: [] if kind == "parquet" else structure(f) for f in files}
    chance = random.Random(f"{kind} {seed}")
    for case in range(count):
        path = chance.choice(files)
        whole = path.read_bytes()
        broken, at = damaged(whole, chance)
        yield case, "begins"
        path.write_bytes(broken)
        try:
            same = read(root).equals(expected)
            told = "same" if same else "differs"
            if not same and not may_differ(places[path], at):
                told = f"WRONG ROWS: {path.relative_to(root)} byte {at} of {len(whole)}"
        except FormatError as error:
            named = str(error.context.get("path", "")).endswith(str(path.relative_to(root)))
            told = "told" if named else f"NO PATH: {error} {error.context}"
        except Exception as error:  # the property: nothing else
            told = f"RAISED {type(error).__name__}: {error} ({path.relative_to(root)} byte {at})"
        path.write_bytes(whole)
        yield case, told


@pytest.mark.parametrize("kind", sampled(KINDS, "storage", group=lambda _: "all"))
def test_a_flipped_byte_gives_the_right_rows_or_names_the_file(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, kind, str(tmp_path / "t"), str(FLIPS)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"crashed in case {lines[-1:]}: {done.stderr[-2000:]}"
    outcomes = Counter(told for _, told in lines if told != "begins")
    assert set(outcomes) <= {"same", "told", "differs"}, outcomes
    assert outcomes.total() == FLIPS
    assert outcomes["told"] > FLIPS / 10
    assert outcomes["differs"] < FLIPS / 4


# of the last one not all files are read
@pytest.mark.parametrize("kind", sampled(KINDS[:-1], "storage", group=first_letter))
def test_a_truncated_file_is_told_at_every_length(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path / "t")
    for path in data_files(tmp_path / "t"):
        whole = path.read_bytes()
        for step in range(1, 21):
            path.write_bytes(whole[: len(whole) * step // 21])
            with pytest.raises(FormatError, match=path.name):
                read(tmp_path / "t")
        path.write_bytes(whole)


@pytest.mark.parametrize("kind", ["full ZLIB", "base", "originals", "insert-only", "parquet"])
def test_an_empty_file_holds_no_rows_but_an_empty_delete_file_is_told(
    kind: str, tmp_path: Path
) -> None:
    make(kind, tmp_path)
    count = read(tmp_path).num_rows
    for path in data_files(tmp_path):
        whole = path.read_bytes()
        path.write_bytes(b"")
        if "delete_delta" in str(path):
            with pytest.raises(FormatError, match=r"an empty file|no delete events"):
                read(tmp_path)
        else:
            assert read(tmp_path).num_rows < count
        path.write_bytes(whole)


def _orc(path: Path, table: pa.Table) -> None:
    from pyarrow import orc

    orc.write_table(table, path)


EVENTS = pa.table(
    {
        "operation": pa.array([0], pa.int32()),
        "originalTransaction": pa.array([1], pa.int64()),
        "bucket": pa.array([536870912], pa.int32()),
        "rowId": pa.array([0], pa.int64()),
        "currentTransaction": pa.array([1], pa.int64()),
        "row": [{"id": [1, 2]}],
    }
)


@pytest.mark.parametrize("pattern", ["delta_0000001*", "delta_0000002*", "delete_delta*"])
@pytest.mark.parametrize(
    "foreign",
    ["raw ORC", "another schema", "text", "Parquet", "no bucket", "a directory"],
)
def test_a_foreign_file_in_a_full_acid_directory_is_told(
    pattern: str, foreign: str, tmp_path: Path
) -> None:
    full(tmp_path, "ZLIB")
    (path,) = tmp_path.glob(f"{pattern}/bucket_*")
    path.unlink()
    if foreign == "raw ORC":
        _orc(path, rows(0, 3))
    elif foreign == "another schema":
        _orc(path, EVENTS)
    elif foreign == "text":
        path.write_text("1,2,3\n" * 50)
    elif foreign == "Parquet":
        pq.write_table(rows(0, 3), path)
    elif foreign == "no bucket":
        bad = EVENTS.set_column(2, "bucket", pa.array([-5], pa.int32()))
        _orc(path, bad)
    else:
        path.mkdir()
        (path / "x").write_text("x")
    if foreign == "no bucket" and "delete" not in pattern:
        return  # numbers of inserted rows are the user's business
    if foreign == "another schema" and "delete" in pattern:
        assert read(tmp_path).num_rows == 80  # its event is an insert: it deletes nothing
        return
    if foreign == "a directory":
        # a directory is no file: there are none in this delta
        assert read(tmp_path).num_rows == (
            80 if "delete" in pattern else 40 if "1" in pattern else 31
        )
        return
    with pytest.raises(FormatError):
        read(tmp_path)


def test_names_that_need_escapes_links_and_hidden_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    values = {"a%2Fb": "a/b", "50%25": "50%", "..": "..", "a%0Ab": "a\nb", "é }": "é }"}
    for number, name in enumerate(values):
        put(root / f"p={name}" / "delta_0000001_0000001_0000", first=1000 * number)
    outside = tmp_path / "elsewhere"
    put(outside / "delta_0000001_0000001_0000", first=9000)
    (root / "p=link").symlink_to(outside)
    delta = root / "p=.." / "delta_0000001_0000001_0000"
    for hidden in (".bucket_00001", "_tmp", ".bucket_00000_0.crc"):
        (delta / hidden).write_bytes(b"junk")
    (root / "p=.." / "_staging").mkdir()
    (root / "p=.." / "_staging" / "bucket_00000").write_bytes(b"junk")
    (root / ".hidden").mkdir()
    found = read_arrow(str(root), columns=["p", "id"]).read_all()
    assert set(found["p"].to_pylist()) == {*values.values(), "link"}
    assert found.num_rows == 40 * 6
    some = read_arrow(str(root), columns=["id"], partitions={"p": "a\nb"}).read_all()
    assert some["id"].to_pylist() == list(range(3000, 3040))


if __name__ == "__main__":
    for line in fuzz(sys.argv[1], Path(sys.argv[2]), seed=1, count=int(sys.argv[3])):
        print(json.dumps(line), flush=True)
