"""What a caller in Python hands in must be of the type it stands for."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeVar

from hiveacid.errors import InvalidInputError

_Checked = TypeVar("_Checked", bound=Callable[..., Any])
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "None": (NoneType, ""),
    "PathLike": (os.PathLike, ""),
    "Mapping": (Mapping, "a mapping"),
    "Sequence": (Sequence, "a list"),
}
_TABLES: Final = frozenset({"SessionTable"})
_CLASSES: Final = frozenset(
    {
        *("Path", "pc.Expression", "Settings", "SparkSession", "TableName", "timedelta"),
        *("ValidTxnList", "ValidWriteIdList"),
    }
)
"""Told by name: the module of one may be imported late, or never."""
_CHECKED: Final = _TABLES | _CLASSES | _KINDS.keys()
_SHOWN: Final = 60
"""characters of a wrong value that an error shows"""


def checked(public: _Checked) -> _Checked:
    """A function, or a class with its public methods, inherited ones too, whose arguments are held
    against their annotations before it is called; annotations that name other types are left to the
    function.

    Raises:
        InvalidInputError: an argument is of another type.
    """
    if inspect.isclass(public):
        for name in dir(public):
            member = inspect.getattr_static(public, name)
            is_done = hasattr(member, "is_checked")
            if inspect.isfunction(member) and not name.startswith("_") and not is_done:
                setattr(public, name, checked(member))
        return public
    signature = inspect.signature(public)
    wanted = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, str)
        and all(head in _CHECKED for head, _ in _parts(parameter.annotation))
    }

    @functools.wraps(public)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:  # Python's own message names the function
            return public(*args, **kwargs)
        for name, value in arguments.items():
            several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for one in value if several else (value,):
                if name in wanted and not _fits(one, wanted[name]):
                    raise wrong_argument(name, _said(wanted[name]), one)
                if name in wanted:
                    check_number(name, one)
        return public(*args, **kwargs)

    call.is_checked = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def check_number(name: str, value: object) -> None:
    """A number is one, and one that a database can hold.

    Raises:
        InvalidInputError: it is not.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInputError(f"{name} is a number of 64 bits, not {value}", argument=name)
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInputError(f"{name} is a number, not {value}", argument=name)


def wrong_argument(name: str, said: str, value: object) -> InvalidInputError:
    """The argument ``name`` is what ``said`` says, not ``value``."""
    shown = repr(value).replace("\n", " ")
    if len(shown) > _SHOWN or not isinstance(value, str | int | float | NoneType):
        shown = f"of type {type(value).__name__}"
    if isinstance(value, list) and value:
        shown = f"a list of {type(value[0]).__name__}"
    return InvalidInputError(f"{name} is {said}, not {shown}", argument=name)


def _parts(annotation: str) -> list[tuple[str, str]]:
    """The alternatives, each as its name and what is in its brackets."""
    parts = (part.strip().removesuffix("]").partition("[") for part in annotation.split("|"))
    return [(head, inside) for head, _, inside in parts]


def _said(annotation: str) -> str:
    words = []
    for head, inside in _parts(annotation):
        kind = "a table" if head in _TABLES else f"a {head.rpartition('.')[2]}"
        word = _KINDS[head][1] if head in _KINDS else kind
        word += " of texts" if inside.endswith("str") and word else ""
        words.append(f"{word} of mappings" if inside.startswith("Mapping") else word)
    return " or ".join(dict.fromkeys(filter(None, words)))


def _fits(value: Any, annotation: str) -> bool:
    return any(_is(value, head, inside) for head, inside in _parts(annotation))


def _is(value: Any, head: str, inside: str) -> bool:
    if head in _TABLES:
        return hasattr(type(value), "definition")  # of the value itself it asks the catalog
    if head in _CLASSES:
        return any(base.__name__ == head.rpartition(".")[2] for base in type(value).__mro__)
    if not isinstance(value, _KINDS[head][0]) or (
        isinstance(value, bool) and head in ("int", "float")
    ):
        return False
    if isinstance(value, Mapping):
        keys, _, texts = inside.partition(", ")
        return all(isinstance(key, str) for key in value) and (
            texts != keys or all(isinstance(text, str) for text in value.values())
        )
    if head == "Sequence":
        return not isinstance(value, str | bytes) and (
            (inside not in _KINDS and not inside.startswith("Mapping"))
            or all(_fits(one, inside) for one in value)
        )
    return True
