"""Arguments of natural wrong types end in errors of ours that name them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.wrong_arguments import bare_errors

import hiveacid


def test_no_wrong_argument_ends_in_a_bare_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a name is a path, too
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "w")) as acid:
        wrong = list(bare_errors(acid, tmp_path))
    assert not wrong, "\n".join(wrong)
