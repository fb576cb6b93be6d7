"""Every vector of acid_state_vectors.json: a listing and two valid lists give one answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import SnapshotExpiredError
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import ListKind, ValidTxnList, ValidWriteIdList

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "acid_state_vectors.json").read_text()
)


def entries_of(vector: dict[str, Any]) -> list[Entry]:
    sizes = vector.get("sizes", {})
    contents = vector.get("file_contents", {})
    return [
        Entry(path, sizes.get(path, 500), marker=contents.get(path)) for path in vector["listing"]
    ]


@pytest.mark.parametrize("reverse", [False, True], ids=["listed", "reversed"])
@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any], reverse: bool) -> None:
    listing = entries_of(vector)
    kind = ListKind.COMPACTOR if vector.get("compactor") else ListKind.READER
    txns = vector["valid_txns"]

    def run():
        return resolve(
            reversed(listing) if reverse else listing,
            ValidWriteIdList.parse(vector["valid_write_ids"], kind=kind),
            None if txns is None else ValidTxnList.parse(txns),
            ignore_empty_files=vector.get("ignore_empty_files", True),
        )

    if vector["expect_error"]:
        with pytest.raises(SnapshotExpiredError):
            run()
        return
    found = run()
    assert (found.base.path if found.base else None) == vector["expect_base"]
    assert [delta.path for delta in found.deltas] == vector["expect_deltas"]
    assert set(found.obsolete) == set(vector["expect_obsolete"])
    assert [file.path for file in found.originals] == sorted(vector["expect_originals"])
    if "expect_aborted" in vector:
        assert set(found.aborted) == set(vector["expect_aborted"])
