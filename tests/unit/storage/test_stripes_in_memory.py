"""No stripe holds more than one column of Arrow's can: texts of a dictionary take few bytes in the
file, and 2 GiB and more in memory.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import UnsupportedError
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc import bucket_writer
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

COLUMNS = [Column("s", parse_type("string")), Column("t", parse_type("timestamp"))]
ROWS = 2_000
FS = Files().at("/")[0]


def batch() -> pa.RecordBatch:
    texts = [str(n % 4) * 500 for n in range(ROWS)]
    times = pa.array([n * 10**6 for n in range(ROWS)], pa.timestamp("us"))
    return pa.record_batch([pa.array(texts), times], ["s", "t"])


@pytest.mark.parametrize("kind", [FileKind.INSERT, FileKind.PLAIN])
def test_texts_of_a_dictionary_end_a_stripe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FileKind
) -> None:
    monkeypatch.setattr(bucket_writer, "_READ_AT_ONCE", 5 * batch().nbytes // 2)
    path = str(tmp_path / "bucket_00000")
    with BucketFileWriter(
        FS, path, columns=COLUMNS, kind=kind, write_id=1, bucket_property=encode_bucket(0, 0)
    ) as writer:
        for _ in range(7):
            writer.write_rows(batch())
    assert orc.ORCFile(path).nstripes == 4
    with BucketFileReader(FS, path) as reader:
        assert reader.tail is not None
        ids = reader.tail.user_metadata.get("hive.acid.key.index")
        read = list(reader.batches(table_columns=COLUMNS, wanted=(0, 1), identities=False))
    assert [one.rows for one in read] == [2 * ROWS] * 3 + [ROWS]
    for place, given in enumerate(batch().columns):
        assert pa.concat_arrays([one.columns[place] for one in read]).equals(
            pa.concat_arrays([given] * 7)
        )
    if kind is FileKind.INSERT:
        ends = [2 * ROWS, 4 * ROWS, 6 * ROWS, 7 * ROWS]
        assert ids == "".join(f"1,{encode_bucket(0, 0)},{n - 1};" for n in ends).encode()


def test_a_stripe_with_more_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "000000_0")
    orc.write_table(pa.Table.from_batches([batch()]), path)

    def too_much(*_: object, **__: object) -> None:
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    monkeypatch.setattr(orc.ORCFile, "read_stripe", too_much)
    with (
        BucketFileReader(FS, path) as reader,
        pytest.raises(UnsupportedError, match="stripe 0 has more than 2 GiB of texts in a column"),
    ):
        list(reader.batches(table_columns=COLUMNS, wanted=(0, 1), identities=False))
