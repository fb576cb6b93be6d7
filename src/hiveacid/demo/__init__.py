"""The demonstration: ``hiveacid demo``."""

from __future__ import annotations

from pathlib import Path


def run(*, scale: float, directory: Path) -> bool:
    """To come."""
    raise NotImplementedError((scale, directory))
