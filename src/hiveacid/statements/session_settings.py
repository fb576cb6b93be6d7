"""SET, RESET and USE: what a statement changes of its session, and of nothing else."""

from __future__ import annotations

from hiveacid.client import DEFAULT_DATABASE
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.listing import Listing


def set_property(context: ExecutionContext, statement: ddl.SetProperty) -> Listing | None:
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


def reset(context: ExecutionContext, statement: ddl.ResetProperties) -> None:
    """RESET [name ...]: the settings that the session was connected with."""
    settings = context.client.initial_settings
    if statement.keys:
        settings = context.settings
        for key in statement.keys:
            settings = settings.without(key)
    context.client.use_settings(settings)


def use_database(context: ExecutionContext, statement: ddl.UseDatabase) -> None:
    """USE name.

    Raises:
        NotFoundError: no such database.
    """
    context.owner.use_database(context.client.metastore.get_database(statement.name).name)


def leave_database(context: ExecutionContext, name: str) -> None:
    """The database was dropped: who was in it is in ``default``."""
    if name == context.database:
        context.owner.use_database(DEFAULT_DATABASE)
