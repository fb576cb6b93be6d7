"""The two marker files of a directory: ``_orc_acid_version`` and ``_metadata_acid`` (1.4, 1.5)."""

from __future__ import annotations

import json
from enum import Enum
from typing import Final

from hiveacid.errors import FormatError

VERSION_TEXT: Final = "2"
"""The whole content of ``_orc_acid_version``."""

_MARKER_VERSION: Final = "0"


class DataFormat(Enum):
    """What ``_metadata_acid`` says about the base in which it lies."""

    COMPACTED = "compacted"
    """made by the compactor of Hive 3, not by INSERT OVERWRITE"""
    TRUNCATED = "truncated"
    DROPPED = "dropped"


def format_marker(data_format: DataFormat) -> str:
    """The text of ``_metadata_acid``, byte for byte as Hive writes it.

    >>> format_marker(DataFormat.TRUNCATED)
    '{"thisFileVersion":"0","dataFormat":"truncated"}'
    """
    content = {"thisFileVersion": _MARKER_VERSION, "dataFormat": data_format.value}
    return json.dumps(content, separators=(",", ":"))


def parse_marker(text: str, *, path: str) -> DataFormat:
    """What the text of ``_metadata_acid`` at ``path`` says; key order and case do not matter.

    Raises:
        FormatError: the text is not JSON, of another version or says something unknown.
    """
    try:
        content = json.loads(text)
        if content["thisFileVersion"] != _MARKER_VERSION:
            raise ValueError("version")
        return DataFormat(content["dataFormat"].lower())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"Marker {path} is not one of version {_MARKER_VERSION}: {text[:200]!r}",
            path=path,
            expected=format_marker(DataFormat.COMPACTED),
            found=text[:200],
        ) from error
