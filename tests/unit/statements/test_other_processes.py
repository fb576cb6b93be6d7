"""What belongs to a session stays in its process."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session, connect

OF_A_SESSION: dict[str, Callable[[Session], object]] = {
    "session": lambda acid: acid,
    "table": lambda acid: acid.table("t"),
    "data set": lambda acid: hiveacid.dataset(acid.table("t")),
    "transaction": lambda acid: acid.transaction(),
    "stream": lambda acid: acid.stream("t"),
}


@pytest.mark.parametrize("send", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("what", OF_A_SESSION)
def test_it_is_told_what_to_do_instead_of_sending_it_to_another(
    tmp_path: Path, what: str, send: Callable[[object], Any]
) -> None:
    """As a function for Spark's workers, or a task of a pool, that names it does."""
    with connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.create_table("t", pa.table({"id": [1]}), transactional=True)
        with pytest.raises(InvalidInputError, match="cannot be sent to another process") as failed:
            send(OF_A_SESSION[what](acid))
        assert "hiveacid.connect(None, 'sqlite:///" in failed.value.__notes__[0]
