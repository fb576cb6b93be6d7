"""The version of hiveacid, for those below the package's front door."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
