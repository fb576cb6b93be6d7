"""Options of ``format("hiveacid")``, and what a path means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.connectors.names import table_at
from hiveacid.connectors.options import WRITE, Options
from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import Place
from hiveacid.model.tables import TableName


@pytest.mark.parametrize("name", ["access_key", "secret_key", "session_token"])
def test_keys_to_s3_do_not_belong_into_options(name: str) -> None:
    options = {"table": "t", f"hiveacid.s3.{name}": "Se cRet", "hiveacid.s3.region": "there"}
    with pytest.raises(InvalidInputError, match=f"{name} does not belong into options") as failed:
        Options.of(options, WRITE)
    assert "Se cRet" not in str(failed.value)
    del options[f"hiveacid.s3.{name}"]
    assert Options.of(options, WRITE).settings == {"hiveacid.s3.region": "there"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("s3://bucket/wh/t", "d.t"),
        ("s3n://bucket//wh/t/", "d.t"),
        ("s3a://bucket/wh/t", "d.t"),
        ("s3a://bucket/wh/u", None),
        ("file:///wh/u/", "d.u"),
        ("/wh//u", "d.u"),
    ],
)
def test_a_table_is_found_however_its_place_is_written(path: str, found: str | None) -> None:
    places = [
        Place(TableName("d", "t"), None, "s3a://bucket/wh/t", True),
        Place(TableName("d", "u"), None, "/wh/u", True),
    ]
    own = SimpleNamespace(places=lambda: places)
    acid: Any = SimpleNamespace(client=SimpleNamespace(own=own), table=lambda name: name)
    assert table_at(acid, path) == found
