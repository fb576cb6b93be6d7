"""SET, RESET, USE, and the statements that begin and end transactions: what a statement changes of
its session, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.client import DEFAULT_DATABASE
from hiveacid.model.transactions import Isolation
from hiveacid.statements.answers import Listing
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.values import Command


@dataclass(frozen=True, slots=True)
class UseDatabase(Command):
    """USE name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetProperty(Command):
    """SET key = value; without ``value`` it shows the key, without ``key`` all settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetProperties(Command):
    """RESET [key ...]: settings go back to their defaults."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Begin(Command):
    """START TRANSACTION [ISOLATION LEVEL level], BEGIN [TRANSACTION | WORK]; ``isolation`` None:
    what SET TRANSACTION or the settings say.
    """

    isolation: Isolation | None = None


@dataclass(frozen=True, slots=True)
class SetTransaction(Command):
    """SET TRANSACTION ISOLATION LEVEL level: of the open transaction, or of the next."""

    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """COMMIT [TRANSACTION | WORK]."""


@dataclass(frozen=True, slots=True)
class Rollback(Command):
    """ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]; ``savepoint`` None: all of it."""

    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Savepoint(Command):
    """SAVEPOINT name."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint(Command):
    """RELEASE [SAVEPOINT] name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetAutocommit(Command):
    """SET autocommit = true | false; ``on`` None asks for it."""

    on: bool | None = None


TransactionStatement = (
    Begin | SetTransaction | Commit | Rollback | Savepoint | ReleaseSavepoint | SetAutocommit
)


def set_property(context: ExecutionContext, statement: SetProperty) -> Listing | None:
    """SET name=value; SET name and SET tell what is set.

    Raises:
        InvalidInputError: no value of that setting.
    """
    settings = context.settings
    if statement.key is None:
        return Listing(("set",), tuple((f"{name}={text}",) for name, text in settings.items()))
    if statement.value is None:
        text = settings.get(statement.key)
        shown = f"{statement.key} is undefined" if text is None else f"{statement.key}={text}"
        return Listing(("set",), ((shown,),))
    context.client.use_settings(settings.with_(statement.key, statement.value))
    if statement.key.startswith("spark.") and context.spark is not None:
        context.spark.conf.set(statement.key, statement.value)
    return None


def reset(context: ExecutionContext, statement: ResetProperties) -> None:
    """RESET [name ...]: the settings that the session was connected with."""
    settings = context.client.initial_settings
    if statement.keys:
        settings = context.settings
        for key in statement.keys:
            settings = settings.without(key)
    context.client.use_settings(settings)


def use_database(context: ExecutionContext, statement: UseDatabase) -> None:
    """USE name.

    Raises:
        NotFoundError: no such database.
    """
    context.owner.use_database(context.client.metastore.get_database(statement.name).name)


def leave_database(context: ExecutionContext, name: str) -> None:
    """The database was dropped: who was in it is in ``default``."""
    if name == context.database:
        context.owner.use_database(DEFAULT_DATABASE)
