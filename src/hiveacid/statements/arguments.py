"""What a caller in Python hands in must be of the type it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hiveacid.errors import InvalidInputError

_SAID: Final[Mapping[type, str]] = {str: "a text", int: "a whole number"}


def check_arguments(kind: type, **given: object) -> None:
    """Each argument is None or of this type: ``str``, or ``int`` (which True is not).

    Raises:
        InvalidInputError: one is something else.
    """
    for name, value in given.items():
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InvalidInputError(f"{name} is {_SAID[kind]}, not {value!r}", argument=name)


def check_properties(properties: object) -> None:
    """A mapping of texts to texts, as TBLPROPERTIES are.

    Raises:
        InvalidInputError: it is something else.
    """
    if not isinstance(properties, Mapping) or not all(
        isinstance(text, str) for pair in properties.items() for text in pair
    ):
        raise InvalidInputError(
            f"properties maps texts to texts, not {properties!r}", argument="properties"
        )
