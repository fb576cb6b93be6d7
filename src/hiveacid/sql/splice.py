"""Fragments -> Spark SQL text: names of our tables become placeholders, the noted places are
rewritten.

Name resolution: WITH query, temporary view, our database, then Spark's catalogs (left as they are
in the text). A table whose virtual columns are mentioned gets a ``TableRef`` that asks for them;
since ``*`` must not show them, stars over such a table are written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.history import AsOf
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.tables import AcidMode, Table, TableKind, TableName
from hiveacid.spark.session import quoted, single_quoted
from hiveacid.sql.expressions import (
    MOVED,
    BucketSample,
    Edit,
    Fragment,
    Relation,
    Scope,
    Star,
    VirtualName,
)
from hiveacid.sql.forms import whole
from hiveacid.sql.needs import Conditions, columns_of_statement
from hiveacid.sql.query import QueryParser
from hiveacid.statements.values import TableRef, VirtualColumn
from hiveacid.txn.past import as_it_was
from hiveacid.txn.view import Look

_Virtual = dict[int, frozenset[VirtualColumn]]
"""The virtual columns asked for, by the identity of the relation."""


class Splicer:
    """Turns the fragments of ONE statement into text; ``tables`` collects what the placeholders
    stand for.
    """

    def __init__(self, names: Look, *, prefix: str, expanding: tuple[TableName, ...] = ()) -> None:
        """``expanding`` are the views, outermost first, in whose text this statement is."""
        self._names = names
        self._expanding = expanding
        self.prefix = prefix
        self.tables: dict[str, TableRef] = {}
        self.views: set[TableName] = set()
        self.of_target: frozenset[VirtualColumn] = frozenset()
        """The virtual columns that are asked for of the table that the statement changes."""
        self._imposed: tuple[Predicate, tuple[str, ...]] | None = None

    def text(self, fragment: Fragment) -> str:
        """The fragment as Spark SQL."""
        return single_quoted(_spliced(fragment, self._edits(fragment.scope, fragment.source)))

    def qualify(self, name: TableName) -> TableName:
        """The name with the current database where it has none; of a temporary table, that by
        which it is kept.
        """
        database = name.database or self._names.current_database
        return self._names.actual(TableName(database, name.table))

    def resolve(self, parts: tuple[str, ...]) -> Table | None:
        """The table of ours that a name in a query means; None where it means something of
        Spark's.
        """
        if len(parts) == 1 and self._names.is_temporary_view(parts[0]):
            return None
        if len(parts) > 2:
            return None
        name = TableName.of(parts, database=self._names.current_database)
        return self._names.table(self._names.actual(name))

    def qualified(self, fragment: Fragment) -> str:
        """The fragment as Hive SQL that means the same in every database and does not change
        when a table gets columns: full names of tables, no stars over them.
        """
        edits = []
        scopes = _walk(fragment.scope)
        resolved = {id(r): self._table_of(r) for scope in scopes for r in scope.relations}
        for scope in scopes:
            for relation in scope.relations:
                table = resolved[id(relation)]
                if table is not None:
                    text = quoted(table.name.database, table.name.table)
                    edits.append(Edit(relation.start, relation.end, text))
            known = [r for r in scope.relations if resolved[id(r)] is not None]
            if len(known) == len(scope.relations):
                edits += _star_edits(scope, resolved, {id(r): frozenset() for r in known})
        return _spliced(fragment, edits)

    def relation(
        self,
        table: Table,
        *,
        virtual: frozenset[VirtualColumn] = frozenset(),
        predicate: Predicate = ANYTHING,
        columns: frozenset[str] | None = None,
        as_of: AsOf | None = None,
        options: frozenset[str] = frozenset(),
    ) -> str:
        """What stands for a table or view in this statement's text: an identifier, or a query. The
        tables of a view are all as of one time.

        Raises:
            InvalidInputError: a version of a view.
        """
        if table.kind is not TableKind.VIEW:
            moment = as_of or self._names.moment
            wanted = TableRef(table.name, virtual, predicate, columns, moment, options=options)
            return self._placeholder(wanted)
        if as_of is not None and (as_of.write_id is not None or as_of.tag is not None):
            raise InvalidInputError(
                f"{table.name} is a view: it has no versions of its own",
                view=str(table.name),
                note="A view is read as of a time: FOR SYSTEM_TIME AS OF '...'.",
            )
        self.views.add(table.name)
        path = (*self._expanding, table.name)
        if table.name in self._expanding:
            raise InvalidInputError(
                f"Recursive view {table.name} detected (cycle: {' -> '.join(map(str, path))}).",
                view=str(table.name),
            )
        inside = Splicer(
            self._names.within(table.name.database, as_of), prefix=self.prefix, expanding=path
        )
        inside.tables = self.tables
        names = tuple(column.name for column in table.all_columns)  # PARTITIONED ON, too
        inside._imposed = (predicate, names)
        text = table.view_expanded or table.view_text or ""
        fragment = whole(text, lambda cursor: QueryParser(cursor).query_fragment())
        called = f"{quoted(table.name.table)}({', '.join(map(quoted, names))})"
        return f"(SELECT * FROM ({inside.text(fragment)}) AS {called})"

    def _placeholder(self, wanted: TableRef) -> str:
        for name, ref in self.tables.items():
            needs = (ref.predicate, ref.columns)
            if ref == wanted and needs == (wanted.predicate, wanted.columns):
                return name
        name = f"{self.prefix}{len(self.tables)}"
        self.tables[name] = wanted
        return name

    # ---------------------------------------------------------------- edits

    def _edits(self, root: Scope, source: str) -> list[Edit]:
        virtual: _Virtual = {}
        scopes = _walk(root)
        relations = {id(one): one for scope in scopes for one in scope.relations}
        resolved = {key: self._table_of(relation) for key, relation in relations.items()}
        for key, relation in relations.items():
            if relation.sample is not None:
                column, _ = _bucket_number(resolved[key], relation.sample)
                virtual[key] = frozenset([column])
        for scope in scopes:
            for name in scope.virtual:
                for relation in _virtual_owners(scope, name, resolved):
                    found = virtual.get(id(relation), frozenset())
                    virtual[id(relation)] = found | {name.column}
                    self.of_target |= {name.column} if relation.target else set()
        conditions = Conditions(source)
        if self._imposed is not None:
            conditions.impose(root, *self._imposed)
        edits: list[Edit] = []
        for scope in scopes:
            conditions.enter(scope)
            edits += scope.edits
            edits += self._relation_edits(source, scope, resolved, virtual, conditions)
            edits += _star_edits(scope, resolved, virtual)
            edits += _dotted_edits(scope, resolved)
            database = self._names.current_database.replace("'", "\\'")
            edits += [Edit(start, end, f"'{database}'") for start, end in scope.current_database]
        return edits

    def _table_of(self, relation: Relation) -> Table | None:
        if not relation.parts or relation.cte:
            return None
        if relation.target:
            name = self.qualify(TableName(*((("", *relation.parts))[-2:])))
            return self._names.table(name)
        table = self.resolve(relation.parts)
        if table is None or table.kind is TableKind.VIEW:
            return table
        wanted = self._as_of(relation) or self._names.moment
        return table if wanted is None else as_it_was(table, self._names.version(table, wanted))

    def _as_of(self, relation: Relation) -> AsOf | None:
        return None if relation.as_of is None else relation.as_of.at(self._names.now_ms)

    def _relation_edits(
        self,
        source: str,
        scope: Scope,
        resolved: dict[int, Table | None],
        virtual: _Virtual,
        conditions: Conditions,
    ) -> list[Edit]:
        edits = []
        is_query = any(star.is_query for star in scope.stars)
        for relation in scope.relations:
            table, is_whole = resolved[id(relation)], is_query or relation.renamed
            if relation.options and (table is None or table.kind is TableKind.VIEW):
                name = ".".join(relation.parts)
                raise InvalidInputError(f"{name} is no table of hiveacid: it has no options")
            if table is None or relation.target:
                continue
            if relation.changes is not None and table.kind is TableKind.VIEW:
                raise InvalidInputError(
                    f"{table.name} is a view: tables have changes", view=str(table.name)
                )
            if relation.changes is not None:
                name = f"{self.prefix}{len(self.tables)}"
                changes = relation.changes.at(self._names.now_ms)
                self.tables[name] = TableRef(table.name, changes=changes)
            else:
                name = self.relation(
                    table,
                    virtual=virtual.get(id(relation), frozenset()),
                    predicate=conditions.of(scope, relation, table),
                    columns=None if is_whole else columns_of_statement(source, table),
                    as_of=self._as_of(relation),
                    options=relation.options,
                )
            if relation.sample is not None:
                _, number = _bucket_number(table, relation.sample)
                wanted = relation.sample.number - 1
                name = f"(SELECT * FROM {name} WHERE {number} % {relation.sample.count} = {wanted})"
            edits.append(Edit(relation.start, relation.travel_end or relation.end, name))
            at = relation.alias_at
            if at is not None:
                edits.append(Edit(at, at, f" as {quoted(relation.label)}"))
        return edits


def _bucket_number(table: Table | None, sample: BucketSample) -> tuple[VirtualColumn, str]:
    """The virtual column that tells a row's bucket, and the bucket's number.

    Raises:
        UnsupportedError: the table's buckets do not tell which rows are in the sample.
    """
    spec = None if table is None else table.bucket
    same = spec is not None and sample.columns in ((), spec.columns)
    if table is None or spec is None or not same or spec.count % sample.count:
        raise UnsupportedError(
            "TABLESAMPLE (BUCKET x OUT OF y ON columns) is supported on the columns by which a "
            "table is CLUSTERED, y a divisor of its number of buckets",
            note="TABLESAMPLE (10 PERCENT) takes rows at random.",
        )
    if table.acid_mode is AcidMode.FULL:
        return VirtualColumn.BUCKET_ID, VirtualColumn.BUCKET_ID.value
    name = VirtualColumn.FILE_NAME
    return name, f"cast(regexp_extract({name.value}, '/([0-9]+)_[^/]*$', 1) as int)"


def _virtual_owners(
    scope: Scope, name: VirtualName, resolved: dict[int, Table | None]
) -> list[Relation]:
    """The tables whose virtual column is meant: those of the innermost scope that can have it."""
    for inner in _outwards(scope):
        found = inner.relations
        if name.qualifier:
            label = name.qualifier[-1].lower()
            found = [relation for relation in found if relation.label.lower() == label]
        if found:
            return [one for one in found if _can_have(resolved[id(one)], name)]
    return []


def _outwards(scope: Scope | None) -> Iterator[Scope]:
    """A scope and those around it."""
    while scope is not None:
        yield scope
        scope = scope.parent


def _can_have(table: Table | None, name: VirtualName) -> bool:
    if table is None or table.kind is TableKind.VIEW:
        return False
    return all(column.name.upper() != name.column.value for column in table.all_columns)


def _walk(scope: Scope) -> list[Scope]:
    return [scope, *(one for child in scope.children for one in _walk(child))]


def _star_edits(scope: Scope, resolved: dict[int, Table | None], virtual: _Virtual) -> list[Edit]:
    edits = []
    for star in scope.stars:
        if not star.qualifier:
            text = "*"
            if any(id(relation) in virtual for relation in scope.relations):
                text = _all_columns(scope, resolved, virtual)
                _check_whole(star)
            text = f"SELECT {text} FROM" if star.is_query else text
            edits.append(Edit(star.start, star.end, text))
            continue
        owner = _star_owner(scope, star, resolved)
        if owner is None:
            continue
        if id(owner) in virtual:
            _check_whole(star)
            edits.append(Edit(star.start, star.end, _columns(owner, resolved)))
        elif len(star.qualifier) > 1:
            edits.append(Edit(star.start, star.end, f"{quoted(owner.label)}.*"))
    return edits


def _check_whole(star: Star) -> None:
    if star.leaves_out:
        raise UnsupportedError(
            "* EXCEPT (...) with a virtual column, or in a view, is not supported",
            note="Name the columns.",
        )


def _star_owner(scope: Scope, star: Star, resolved: dict[int, Table | None]) -> Relation | None:
    for relation in scope.relations:
        table = resolved[id(relation)]
        if table is None:
            continue
        if len(star.qualifier) == 1 and relation.label.lower() == star.qualifier[0].lower():
            return relation
        whole = len(star.qualifier) == 2 and relation.alias_at is not None
        if whole and TableName(*star.qualifier) == table.name:
            return relation
    return None


def _all_columns(scope: Scope, resolved: dict[int, Table | None], virtual: _Virtual) -> str:
    if scope.merged_columns:
        raise UnsupportedError(
            "SELECT * over JOIN USING or NATURAL JOIN with a virtual column is not supported",
            note="Name the columns.",
        )
    parts = []
    for relation in filter(lambda one: one.is_seen, scope.relations):
        if id(relation) in virtual:
            parts.append(_columns(relation, resolved))
        elif relation.label:
            parts.append(f"{quoted(relation.label)}.*")
        else:
            raise InvalidInputError(
                "SELECT * together with a virtual column needs an alias for every subquery of FROM"
            )
    return ", ".join(parts)


def _columns(relation: Relation, resolved: dict[int, Table | None]) -> str:
    table = resolved[id(relation)]
    assert table is not None
    return ", ".join(quoted(relation.label, column.name) for column in table.all_columns)


def _dotted_edits(scope: Scope, resolved: dict[int, Table | None]) -> list[Edit]:
    """``database.table.column`` -> ``table.column`` where the text now holds a placeholder."""
    edits = []
    for dotted in scope.dotted:
        name = TableName(dotted.parts[0], dotted.parts[1])
        owners = [one for inner in _outwards(scope) for one in inner.relations]
        tables = [resolved[id(one)] for one in owners if one.alias_at is not None]
        if any(table is not None and table.name == name for table in tables):
            edits.append(Edit(dotted.start, dotted.second, ""))
    return edits


def _spliced(fragment: Fragment, edits: list[Edit]) -> str:
    for edit in [one for one in edits if one.moved is not None]:
        edits = _moved(fragment.source, edit, edits)
    return " ".join(_piece(fragment.source, piece, edits) for piece in fragment.pieces)


def _moved(source: str, move: Edit, edits: list[Edit]) -> list[Edit]:
    """The edits with one that puts a text in its new place, and one that takes it away."""
    assert move.moved is not None
    start, end = move.moved
    inside = [one for one in edits if start <= one.start and one.end <= end]
    text = move.text.replace(MOVED, _piece(source, move.moved, inside))
    others = [one for one in edits if one not in inside and one != move]
    return [*others, Edit(move.start, move.end, text), Edit(start, end, "")]


def _piece(source: str, piece: tuple[int, int], edits: list[Edit]) -> str:
    at, end = piece
    out = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at or edit.end > end:
            continue
        out.append(source[at : edit.start])
        out.append(edit.text)
        at = edit.end
    out.append(source[at:end])
    return "".join(out)
