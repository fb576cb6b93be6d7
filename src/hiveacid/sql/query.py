"""The structure of queries: clauses, relations, subqueries; their expressions are read by
``ExpressionParser``.

Places where Hive and Spark read the same text differently: ``LIMIT a, b``, ``table(values ...)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.history import AsOf, ChangeRange
from hiveacid.spark.session import QUALIFIES
from hiveacid.sql.cursor import Cursor, Token, TokenKind, name_of
from hiveacid.sql.expressions import (
    MOVED,
    Edit,
    ExpressionParser,
    Fragment,
    Item,
    Relation,
    Scope,
    Star,
    Stop,
    at_clause,
)
from hiveacid.sql.items import (
    as_said,
    at_end_of_on,
    at_join,
    at_pivot,
    bucket_sample,
    by_place,
    column_alias_follows,
    further_names,
    item_of,
    read_option,
)
from hiveacid.sql.moments import TABLE_CHANGES, changes_clause, moment, table_changes
from hiveacid.statements.history import RestoreTable

_TRAVEL: Final = ("SYSTEM_TIME", "SYSTEM_VERSION", "VERSION", "TIMESTAMP")
_LITERALS = (TokenKind.NUMBER, TokenKind.STRING)
_SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")


class QueryParser(ExpressionParser):
    """Reads queries and expressions at a cursor into scopes."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._ctes: frozenset[str] = frozenset()
        self._derived = 0

    # ---------------------------------------------------------------- fragments

    def query_fragment(self) -> Fragment:
        """Reads a whole query, and gives the piece of text that it is."""
        scope = Scope()
        start = self.cursor.at
        self.query(scope)
        return self.fragment(scope, start)

    def expression_fragment(self, stop: Stop, *, scope: Scope | None = None) -> Fragment:
        """An expression up to ``stop`` or the end; it must not be empty."""
        scope = Scope() if scope is None else scope
        start = self.cursor.at
        self.expression(scope, stop)
        return self.fragment(scope, start)

    def fragment(self, scope: Scope, start: int) -> Fragment:
        """What lies between the token index ``start`` and the cursor."""
        tokens = self.cursor.tokens
        piece = (tokens[start].start, tokens[self.cursor.at - 1].end)
        return Fragment(self.cursor.source, (piece,), scope)

    # ---------------------------------------------------------------- queries

    def query(self, parent: Scope) -> None:
        """[WITH ...] body [ORDER BY ...] [LIMIT ...]"""
        outer_ctes = self._ctes
        if self.cursor.key == "WITH":
            self.with_clause(parent)
        self._body(parent)
        self._ctes = outer_ctes

    def _derived_query(self, scope: Scope) -> None:
        self._derived += 1
        self.query(scope)
        self._derived -= 1

    def with_clause(self, parent: Scope) -> None:
        """WITH [RECURSIVE] name [(columns)] [MAX RECURSION LEVEL n] AS (query), ...; the names stay
        visible until the caller's query ends.
        """
        cursor = self.cursor
        cursor.expect("WITH")
        recursive = cursor.peek(1).key not in ("AS", "(") and cursor.accept("RECURSIVE")

        def named_query(_: Cursor) -> None:
            name = cursor.name("with clause")
            columns = cursor.names() if cursor.key == "(" else ()
            end = cursor.tokens[cursor.at - 1].start
            if cursor.accept("MAX", "RECURSION", "LEVEL"):
                cursor.integer("with clause")
            cursor.expect("AS", "(")
            if recursive:
                self._ctes |= {name.lower()}
            query = parent.child()
            self._derived_query(query)
            cursor.expect(")")
            if columns:
                parent.edits.append(Edit(end, end, further_names(columns, query)))
            self._ctes |= {name.lower()}

        cursor.listed(named_query)

    def _body(self, parent: Scope) -> None:
        cursor = self.cursor
        start, others = cursor.token.start, False
        last = self._term(parent)
        parent.body = last.body or (last if last.items or last.stars else None)
        parent.named_by = last.named_by or parent.body
        while cursor.key in _SET_OPERATORS:
            at = cursor.token.start
            if others and cursor.key == "INTERSECT" and not cursor.sparks:  # to Hive all are equal
                parent.edits += [Edit(start, start, "("), Edit(at, at, ") ")]
            others |= cursor.key != "INTERSECT"
            cursor.next()
            cursor.accept_any("ALL", "DISTINCT")
            last = self._term(parent)
            parent.body = None
        limited = self._tails(last)
        if limited and parent.body is not None:
            parent.body.filters_early = False

    def _term(self, parent: Scope) -> Scope:
        cursor = self.cursor
        if not cursor.at_query() or cursor.key == "WITH":
            raise cursor.unrecognized("query")
        scope = parent.child()
        if cursor.accept("("):
            self.query(scope)
            cursor.expect(")")
        elif cursor.accept("VALUES"):
            cursor.listed(lambda _: self._row(scope))
        elif cursor.key == "TABLE":
            word = cursor.next()
            scope.stars.append(Star(word.start, word.end, (), is_query=True))
            self._named_relation(scope)
        else:
            if cursor.key == "FROM":
                self.from_clause(scope)
            self.select_body(scope)
        return scope

    def _row(self, scope: Scope) -> None:
        if self.cursor.key != "(":
            raise self.cursor.unrecognized("values clause")
        self.group(scope)

    def select_body(self, scope: Scope) -> None:
        """SELECT items [FROM ...] [WHERE ...] [GROUP BY ...] [HAVING ...] [WINDOW ...]
        [QUALIFY ...]
        """
        cursor = self.cursor
        first, from_first = cursor.token, bool(scope.relations)
        cursor.expect("SELECT")
        chosen = cursor.token
        cursor.accept_any("ALL", "DISTINCT")
        self._check_no_script()
        cursor.listed(lambda _: self._select_item(scope))
        items_end = cursor.tokens[cursor.at - 1].end
        if cursor.key == "FROM":
            self.from_clause(scope)
        while cursor.looking_at("LATERAL", "VIEW"):  # of a FROM that stands before SELECT
            self._lateral_view(scope)
        if cursor.accept("WHERE"):
            start = cursor.token.start
            self.expression(scope, at_clause)
            scope.where = (start, cursor.tokens[cursor.at - 1].end)
        if cursor.accept("GROUP", "BY"):
            scope.filters_early = False
            self._expressions(scope)
        if cursor.accept("HAVING"):
            scope.filters_early = False
            self.expression(scope, at_clause)
        if cursor.key == "WINDOW" and at_clause(cursor):
            cursor.next()
            self._expressions(scope)
        if cursor.key == "QUALIFY" and at_clause(cursor):
            if from_first:
                raise UnsupportedError("QUALIFY is not supported where FROM stands first")
            self._qualify(scope, first, chosen, items_end)
        if self._tails(scope):
            scope.filters_early = False

    def _check_no_script(self) -> None:
        """TRANSFORM (...) USING is no call of the function of that name."""
        cursor, start = self.cursor, self.cursor.at
        if cursor.looking_at("TRANSFORM", "("):
            cursor.next()
            cursor.skip_parentheses()
            if cursor.key in ("USING", "ROW", "RECORDWRITER"):
                raise UnsupportedError("SELECT TRANSFORM is not supported")
            cursor.at = start

    def _qualify(self, scope: Scope, first: Token, chosen: Token, items_end: int) -> None:
        """The condition becomes one more column, of which a query around this one sees to it."""
        cursor = self.cursor
        word, start = cursor.next(), cursor.token.start
        self.expression(scope, at_clause)
        moved = (start, cursor.tokens[cursor.at - 1].end)
        scope.filters_early = False
        distinct = ""
        if chosen.key == "DISTINCT":
            distinct = "DISTINCT "
            scope.edits.append(Edit(chosen.start, chosen.end, ""))
        around = f"SELECT {distinct}* EXCEPT ({QUALIFIES}) FROM ("
        scope.edits.append(Edit(first.start, first.start, around))
        scope.edits.append(Edit(items_end, items_end, f", {MOVED} AS {QUALIFIES}", moved))
        scope.edits.append(Edit(word.start, word.end, f") WHERE {QUALIFIES}"))

    def _select_item(self, scope: Scope) -> None:
        cursor = self.cursor
        star = self._star()
        if star is not None:
            scope.stars.append(star)
            scope.items.append(Item("", is_several=True))
            scope.filters_early &= not star.leaves_out  # a name outside may be another's column
            if not (cursor.key in (",", ")") or cursor.at_end() or at_clause(cursor)):
                raise cursor.unrecognized("select clause")
            return
        start, before = cursor.at, len(scope.edits)
        self.expression(scope, lambda c: c.key == "," or at_clause(c))
        tokens = cursor.tokens[start : cursor.at]
        scope.items.append(item_of(tokens))
        alias = by_place(scope.items, cursor.source) if self._derived else ""
        if not alias and any(edit.end > edit.start for edit in scope.edits[before:]):
            alias = as_said(tokens, cursor.source)
        scope.edits += [Edit(tokens[-1].end, tokens[-1].end, alias)] if alias else []
        if any(token.key == "OVER" for token in tokens):
            scope.filters_early = False

    def _star(self) -> Star | None:
        cursor, count = self.cursor, 0
        while cursor.peek(count).is_name and cursor.peek(count + 1).key == ".":
            count += 2
        if cursor.peek(count).key != "*":
            return None
        start = cursor.token.start
        qualifier = tuple(name_of(cursor.peek(n)) for n in range(0, count, 2))
        cursor.skip(count)
        end = cursor.next().end
        if leaves_out := cursor.looking_at("EXCEPT", "(") and not cursor.at_nested_query(ahead=1):
            cursor.skip(1)
            cursor.in_parentheses(Cursor.dotted_name)
        return Star(start, end, qualifier, leaves_out)

    def _tails(self, scope: Scope) -> bool:
        """ORDER BY, SORT BY, CLUSTER BY, DISTRIBUTE BY, LIMIT, OFFSET in any order; whether there
        is one of the last two.
        """
        cursor, limited = self.cursor, False
        while at_clause(cursor):
            if cursor.accept("ORDER", "BY") or cursor.accept("SORT", "BY"):
                self.sort_items(scope)
            elif cursor.accept("CLUSTER", "BY") or cursor.accept("DISTRIBUTE", "BY"):
                self._expressions(scope)
            elif cursor.key == "LIMIT":
                limited = True
                start, first = cursor.next().start, cursor.token
                self.expression(scope, lambda c: c.key == "," or at_clause(c))
                if cursor.accept(","):  # LIMIT offset, count
                    count = cursor.token
                    cursor.integer("limit clause")
                    text = f"LIMIT {count.text} OFFSET {first.text}"
                    scope.edits.append(Edit(start, count.end, text))
            elif cursor.accept("OFFSET"):
                limited = True
                self.expression(scope, at_clause)
            else:
                break
        return limited

    def _expressions(self, scope: Scope) -> None:
        self.cursor.listed(lambda _: self.expression(scope, lambda c: c.key == "," or at_clause(c)))

    # ---------------------------------------------------------------- FROM

    def from_clause(self, scope: Scope) -> None:
        """FROM relation { , relation | join | LATERAL VIEW }"""
        self.cursor.expect("FROM")
        self._relations(scope)

    def _relations(self, scope: Scope) -> None:
        cursor = self.cursor
        self._relation(scope)
        while True:
            if cursor.key == "LATERAL" and cursor.peek(1).key == "VIEW":
                self._lateral_view(scope)
            elif cursor.accept(","):
                self._relation(scope)
            elif at_pivot(cursor):
                self._pivot(scope)
            elif words := self._join_words(scope):
                first = len(scope.relations)
                self._relation(scope)
                if words & {"SEMI", "ANTI"}:
                    joined = scope.relations[first:]
                    scope.relations[first:] = (replace(one, is_seen=False) for one in joined)
                if cursor.accept("ON"):
                    self.expression(scope, at_end_of_on)
                elif cursor.accept("USING"):
                    scope.merged_columns = True
                    cursor.skip_parentheses()
            else:
                return

    def _join_words(self, scope: Scope) -> set[str]:
        cursor, words = self.cursor, set[str]()
        if cursor.key != "," and at_join(cursor):
            while "JOIN" not in words:
                words.add(cursor.next().key)
        scope.merged_columns |= "NATURAL" in words
        return words

    def _relation(self, scope: Scope) -> None:
        cursor = self.cursor
        function = cursor.peek(1).key != "VIEW" and cursor.peek(2).key == "("
        lateral = cursor.key == "LATERAL" and (cursor.peek(1).key == "(" or function)
        if lateral:
            cursor.next()
        if cursor.key == "TABLE" and cursor.peek(1).key == "(" and cursor.peek(2).key == "VALUES":
            table = cursor.next()
            scope.edits.append(Edit(table.start, table.end, ""))
        if cursor.key == "(":
            self._parenthesised(scope, lateral=lateral)
        elif cursor.key == "VALUES" and (
            cursor.peek(1).kind in _LITERALS or cursor.peek(1).key == "("
        ):
            self._bare_values(scope)
        else:
            self._named_relation(scope)

    def _bare_values(self, scope: Scope) -> None:
        """VALUES row, ... as Spark has it: those of one column may be without parentheses."""
        cursor = self.cursor
        cursor.expect("VALUES")
        while True:
            if grouped := cursor.key == "(":
                self.group(scope)
            else:
                self.expression(scope, lambda c: c.key in (",", "AS") or at_clause(c))
            if (grouped and cursor.peek(1).key != "(") or not cursor.accept(","):
                break
        scope.relations.append(Relation((), self._alias()[0]))

    def _parenthesised(self, scope: Scope, *, lateral: bool) -> None:
        cursor = self.cursor
        if cursor.at_nested_query():
            start, count = cursor.at, len(scope.children)
            cursor.next()
            query = scope.child()
            self._derived_query(query)
            if cursor.accept(")"):
                if not lateral and count < len(scope.children):
                    scope.children[
                        count
                    ].parent = None  # a derived table does not see its neighbours
                label, _, renamed = self._alias()
                derived = None if renamed else query
                scope.relations.append(Relation((), label, query=derived))
                return
            cursor.at = start
            del scope.children[count:]
        cursor.expect("(")
        first = len(scope.relations)
        self._relations(scope)
        cursor.expect(")")
        if self._alias()[2]:
            inside = scope.relations[first:]
            scope.relations[first:] = (replace(one, renamed=True) for one in inside)

    def _named_relation(self, scope: Scope) -> None:
        cursor = self.cursor
        start = cursor.token.start
        parts = cursor.dotted_name()
        end = cursor.tokens[cursor.at - 1].end
        options: frozenset[str] = frozenset()
        if cursor.key == "(" and cursor.peek(2).key == "=":
            options = frozenset(filter(None, cursor.in_parentheses(read_option)))
        called = parts[-1]
        changes: ChangeRange | None
        if cursor.key == "(" and called.lower() != TABLE_CHANGES:  # a table function
            self.region(scope, lambda c: c.key != "(" and c.tokens[c.at - 1].key == ")")
            scope.relations.append(Relation((), self._alias()[0]))
            return
        if cursor.key == "(":
            called = TABLE_CHANGES
            parts, changes = table_changes(cursor)
        else:
            changes = changes_clause(cursor)
        if changes is not None:
            end = cursor.tokens[cursor.at - 1].end
            label, aliased, _ = self._alias()
            where = None if aliased else end
            scope.relations.append(
                Relation(parts, label or called, start, end, where, changes=changes)
            )
            return
        as_of = self._travel()
        sample = bucket_sample(cursor)
        travel_end = cursor.tokens[cursor.at - 1].end
        if cursor.accept("TABLESAMPLE"):
            scope.filters_early = False
            cursor.skip_parentheses()
        alias_at = cursor.tokens[cursor.at - 1].end
        label, aliased, renamed = self._alias()
        if cursor.key == "TABLESAMPLE":
            raise UnsupportedError("TABLESAMPLE must stand before the alias")
        cte = len(parts) == 1 and parts[0].lower() in self._ctes
        where = None if aliased else alias_at
        named = Relation(parts, label or parts[-1], start, end, where, cte, renamed=renamed)
        scope.relations.append(
            replace(named, as_of=as_of, sample=sample, options=options, travel_end=travel_end)
        )

    def restore(self) -> RestoreTable:
        """RESTORE [TABLE] name [TO] VERSION | TIMESTAMP AS OF value."""
        self.cursor.accept("TABLE")
        name = self.cursor.table_name()
        self.cursor.accept("TO")
        wanted = self._travel()
        if wanted is None:
            raise self.cursor.unrecognized("restore: VERSION AS OF, or TIMESTAMP AS OF")
        return RestoreTable(name, wanted)

    def _travel(self) -> AsOf | None:
        """[FOR] VERSION | SYSTEM_VERSION | TIMESTAMP | SYSTEM_TIME AS OF value, if it is there."""
        cursor = self.cursor
        place = 1 if cursor.key == "FOR" else 0
        travel = cursor.peek(place).key
        if travel not in _TRAVEL or cursor.peek(place + 1).key != "AS":
            return None
        cursor.skip(place + 1)
        cursor.expect("AS", "OF")
        if travel in ("VERSION", "SYSTEM_VERSION"):
            if cursor.token.kind is not TokenKind.STRING:
                return AsOf(write_id=cursor.integer("version"))
            text = cursor.string()
            return AsOf(write_id=int(text)) if text.isdecimal() else AsOf(tag=text.lower())
        return moment(cursor)

    def _alias(self) -> tuple[str, bool, bool]:
        """[[AS] alias [(columns)]] -> the alias, whether there is one, and names of columns."""
        cursor = self.cursor
        if not cursor.accept("AS") and not self._at_alias():
            return "", False, False
        alias = cursor.name("table alias")
        renamed = cursor.key == "("
        if renamed:
            cursor.skip_parentheses()
        return alias, True, renamed

    def _at_alias(self) -> bool:
        """True where an alias without AS stands, and no clause or join."""
        cursor = self.cursor
        return cursor.at_alias() and not at_end_of_on(cursor)

    def _pivot(self, scope: Scope) -> None:
        """PIVOT | UNPIVOT [INCLUDE | EXCLUDE NULLS] (...) [[AS] alias], which makes columns of
        those of all that stands before it.
        """
        self.cursor.next()
        if self.cursor.accept_any("INCLUDE", "EXCLUDE"):
            self.cursor.expect("NULLS")
        self.cursor.skip_parentheses()
        scope.filters_early = False
        scope.relations[:] = (replace(one, renamed=True, query=None) for one in scope.relations)
        scope.relations.append(Relation((), self._alias()[0]))

    def _lateral_view(self, scope: Scope) -> None:
        cursor = self.cursor
        cursor.expect("LATERAL", "VIEW")
        cursor.accept("OUTER")
        cursor.dotted_name()
        if cursor.key != "(":
            raise cursor.unrecognized("lateral view")
        self.region(scope, lambda c: c.key != "(" and c.tokens[c.at - 1].key == ")")
        label = ""
        if cursor.key != "AS" and self._at_alias():
            label = cursor.name("lateral view")
        if cursor.accept("AS"):
            cursor.name("lateral view")
            while cursor.key == "," and column_alias_follows(cursor):
                cursor.next()
                cursor.name("lateral view")
        scope.relations.append(Relation((), label))
