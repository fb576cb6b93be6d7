"""What users hold of tags, names for versions of one table or of many at one moment, and of
consumers of changes: cleaners keep their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.model.history import Pin, as_of
from hiveacid.model.tables import TableName
from hiveacid.statements.arguments import checked
from hiveacid.statements.consumers import Consumer, DropConsumer, consumers
from hiveacid.statements.consumers import drop as drop_consumer
from hiveacid.statements.tags import CreateTag, DropTag, create, drop, tags
from hiveacid.txn.pins import make_tags, tag_name

if TYPE_CHECKING:
    from hiveacid.statements.context import OpenSession


def kept_ms(retain: object) -> int | None:
    """How long a tag is kept; None for ever.

    Raises:
        InvalidInputError: it is no duration.
    """
    if retain is None:
        return None
    kept = retain
    if isinstance(retain, int | float) and not isinstance(retain, bool):
        with suppress(OverflowError):
            kept = timedelta(days=retain)
    if not isinstance(kept, timedelta):
        raise InvalidInputError(f"retain= is a timedelta, or a number of days, not {retain!r}")
    return int(kept.total_seconds() * 1000)


@checked
class TableTags:
    """The part of ``AcidTable`` about its tags."""

    __slots__ = ()
    session: OpenSession
    name: TableName

    def tag(
        self,
        name: str,
        *,
        as_of_write_id: int | None = None,
        as_of_time: object = None,
        retain: timedelta | float | None = None,
    ) -> Pin:
        """CREATE TAG: a name for the table as it is, or was; its files are kept until the tag is
        dropped, or ``retain`` is over (a timedelta, or days).

        Raises:
            AlreadyExistsError: it has a tag of this name.
            NotFoundError, SnapshotExpiredError: there is no such version, or not any more.
            UnsupportedError: a service of Hive cleans, too.
        """
        wanted = as_of(as_of_write_id, as_of_time, None)
        value = CreateTag(name, self.name, wanted, kept_ms(retain))
        return cast("Pin", create(self.session.client, self.session.look(), value))

    def tags(self) -> tuple[Pin, ...]:
        """SHOW TAGS ON the table."""
        return tags(self.session.client.metastore, self.name)

    def drop_tag(self, name: str, *, if_exists: bool = False) -> None:
        """DROP TAG: the next cleaning takes what it kept.

        Raises:
            NotFoundError: there is no such tag.
        """
        drop(self.session.client.metastore, DropTag(name, self.name, if_exists))

    def drop_consumer(self, name: str, *, if_exists: bool = False) -> None:
        """DROP CONSUMER: nobody knows any more how far it has read, and its files may go.

        Raises:
            NotFoundError: there is no such consumer.
        """
        drop_consumer(self.session.client.metastore, DropConsumer(name, self.name, if_exists))


class TagMethods:
    """The part of ``Session`` about tags."""

    def tag(
        self,
        name: str,
        tables: Sequence[str],
        *,
        at: object = None,
        retain: timedelta | float | None = None,
    ) -> tuple[Pin, ...]:
        """Tag many tables, all at one moment: now, or ``at`` a transaction or time (as ``at``).

        Example:
            >>> acid.tag("close-2026", tables=["orders", "lines"])  # doctest: +SKIP

        Raises:
            AlreadyExistsError: one of them has a tag of this name; none is made.
            NotFoundError, SnapshotExpiredError: there is no such version of one of them.
        """
        if isinstance(tables, str) or not tables:
            raise InvalidInputError("tables= is a list of names of tables")
        session = cast("OpenSession", self)
        look = session.look()
        chosen = dict.fromkeys(session.table_name(one) for one in tables)
        wanted = None if at is None else cast("Any", self).at(at).moment
        found = [look.definition(one) for one in chosen]
        return make_tags(session.client, name, found, wanted, kept_ms(retain))

    def tags(self) -> tuple[Pin, ...]:
        """SHOW TAGS: those of all tables."""
        return tags(cast("OpenSession", self).client.metastore)

    def show_consumers(self, table: str | None = None) -> tuple[Consumer, ...]:
        """SHOW CONSUMERS: who reads changes of a table by a name, or of all, and how far.

        Raises:
            NotFoundError: there is no such table.
        """
        session = cast("OpenSession", self)
        name = None if table is None else session.table_name(table)
        return consumers(session.client, name)

    def drop_tag(self, name: str) -> tuple[Pin, ...]:
        """Drop a tag from all tables that have it.

        Raises:
            NotFoundError: no table has.
        """
        client = cast("OpenSession", self).client
        chosen = tuple(one for one in tags(client.metastore) if one.name == tag_name(name))
        if not client.own.drop_pins(chosen):
            raise NotFoundError(f"No table has a tag {name}", tag=name)
        return chosen
