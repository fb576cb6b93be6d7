"""What tests of streams share: kinds of tables, a checkpoint that is set back."""

from __future__ import annotations

from pathlib import Path

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true','transactional_properties'='insert_only')"
)


def set_back(checkpoint: Path) -> None:
    """The checkpoint forgets that its last batch was done."""
    commits = checkpoint / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
