"""Calls each public function and method with arguments of natural wrong types, one at a time."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import count, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

import hiveacid
from hiveacid.errors import AcidError, InternalError
from hiveacid.table import MergeBuilder

if TYPE_CHECKING:
    from hiveacid.session import Session

WRONG: Final = (
    *(None, True, 5, -1, 1.5, Decimal("1.5"), "", "no such thing", "';", b"x", Path("x"), object()),
    *({}, {"id": 1}, {1: 2}, {"nope": "x"}, [], ["id"], [5], [{"id": 1}], [{}], (), {"id"}, len),
    *(pd.DataFrame({"nope": [1]}), pa.table({"nope": [1]}), pd.Series([1]), pa.array([1])),
    *(10**20, float("nan"), float("inf")),
)
NATURAL: Final[Mapping[str, Any]] = {
    "text": "show tables",
    "schema": "id int",
    "rows": pa.table({"id": [7], "name": ["x"]}),
    "data": pa.table({"id": [7], "name": ["x"]}),
    "source": pa.table({"id": [7], "name": ["x"]}),
    "on": "id",
    "keys_or_filter": "id = 7",
    "assignments": {"name": "'y'"},
    "values": {"id": "s.id"},
    "path": "/nowhere",
    "name": "t",
    "table": "t",
    "locks": 1,
    "transactions": 1,
    "since": 0,
    "tables": ["t"],
    "ids": 1,
    "spark": None,
    "where": "id = 7",
    "txn": 1,
}
FOR_THE_HOUSE: Final = {
    *("execute", "lease", "table_definition", "close", "client"),
    *("use_database", "control", "definition_context"),
    *("run", "look", "over", "take_over", "purged", "restored", "reading_context", "as_of"),
    "rows_explained",
}
"""Not what users call, or the end of the session."""


def bare_errors(acid: Session, where: Path, third: int | None = None) -> Iterator[str]:
    """What ends in another error than ours, as text; ``t`` is made. With a ``third`` (0, 1, 2) each
    argument gets a third of the wrong values, its neighbour the next one.
    """
    wrong: Iterator[tuple[Any, ...]] = repeat(WRONG)
    if third is not None:
        wrong = (WRONG[(number + third) % 3 :: 3] for number in count())
    acid.sql(
        "create table t (id int, name string) stored as orc tblproperties ('transactional'='true')"
    )
    acid.sql("insert into t values (1, 'a')")
    table = acid.table("t")
    url = f"sqlite:///{where}/other.db"
    given = {
        "hiveacid": {"table": table, "url": url, "warehouse": str(where / "other"), "acid": acid},
        "Session": {},
        "AcidTable": {},
        "AcidTransaction": {"text": "insert into t values (2, 'b')", "name": "s"},
        "MergeBuilder": {},
    }
    merge = MergeBuilder(table.session, table.merge(NATURAL["source"], on="id").statement)
    owners = (("MergeBuilder", merge), ("AcidTable", table), ("Session", acid))
    for label, owner in owners:
        for name in dir(type(owner)):
            member = getattr(type(owner), name)
            if name[0] != "_" and callable(member) and name not in FOR_THE_HOUSE:
                yield from _calls(f"{label}.{name}", getattr(owner, name), given[label], wrong)
    for name in hiveacid.__all__:
        member = getattr(hiveacid, name)
        if inspect.isfunction(member):
            yield from _calls(name, member, given["hiveacid"], wrong)
    for name in ("sql", "table", "savepoint", "rollback_to", "release"):
        with acid.transaction() as txn:
            yield from _calls(
                f"AcidTransaction.{name}", getattr(txn, name), given["AcidTransaction"], wrong
            )


def _calls(
    label: str, call: Any, own: Mapping[str, Any], wrong: Iterator[tuple[Any, ...]]
) -> Iterator[str]:
    parameters = inspect.signature(call).parameters
    natural = {**NATURAL, **own}
    needed = {
        name: natural[name]
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
    }
    for name in parameters:
        for value in next(wrong):
            try:
                if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                    _use(call(value, **needed))
                else:
                    _use(call(**{**needed, name: value}))
            except InternalError as error:  # noqa: PERF203 - each call by itself
                yield f"{label}({name}={value!r}): {error!r}"
            except AcidError:
                pass
            except Exception as error:
                yield f"{label}({name}={value!r}): {error!r}"


def _use(result: Any) -> None:
    """A generator, or a builder, does its work later."""
    if inspect.isgenerator(result):
        list(result)
    elif isinstance(result, MergeBuilder):
        result.when_matched_update({"name": "s.name"}).run()
    elif isinstance(result, hiveacid.Session):
        result.close()
