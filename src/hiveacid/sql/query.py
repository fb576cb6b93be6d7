"""The structure of queries and expressions: where clauses, relations, sort items, subqueries are.

Only the structure is read; expressions stay as the user wrote them. Places are noted where Hive
and Spark read the same text differently:

* ORDER BY and SORT BY without NULLS: Hive puts NULLs last ascending and first descending (also in
  windows: the same rule of its grammar), Spark the other way round.
* ``LIMIT a, b``; casts to char and varchar (Spark does not cut); ``timestamp with local time
  zone``; ``table(values ...)``; adjacent string literals without a blank between them (Spark 4
  reads ``'it''s'`` as ``it's``, Hive as ``its``).
"""

from __future__ import annotations

from collections.abc import Callable

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.lexer import TokenKind, name_of, position
from hiveacid.sql.scopes import DottedName, Edit, Fragment, Relation, Scope, Star

Stop = Callable[[Cursor], bool]

_VIRTUAL_COLUMNS = frozenset(
    {
        "INPUT__FILE__NAME",
        "BLOCK__OFFSET__INSIDE__FILE",
        "ROW__IS__DELETED",
        "ROW__OFFSET__INSIDE__BLOCK",
    }
)
_SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_QUERY_TERM = ("SELECT", "(", "FROM", "VALUES", "WITH", "ALL", "DISTINCT")


def at_clause(cursor: Cursor) -> bool:
    """True where a clause of a query starts, at the top level of an expression."""
    key = cursor.key
    if key in ("WHERE", "HAVING", "UNION", "INTERSECT", "EXCEPT", ";"):
        return True
    if key == "FROM":
        return not (
            cursor.at and cursor.tokens[cursor.at - 1].key == "DISTINCT" and _after_is(cursor)
        )
    if key in ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"):
        return cursor.peek(1).key == "BY"
    if key == "MINUS":
        return cursor.peek(1).key in _QUERY_TERM
    if key == "LATERAL":
        return cursor.peek(1).key == "VIEW"
    if key in ("LIMIT", "OFFSET"):
        return (
            cursor.peek(1).kind in (TokenKind.NUMBER, TokenKind.WORD) or cursor.peek(1).key == "("
        )
    if key in ("WINDOW", "QUALIFY"):
        return cursor.peek(1).kind is not TokenKind.SYMBOL
    if key == "INSERT":
        return cursor.peek(1).key in ("INTO", "OVERWRITE")
    return False


def _after_is(cursor: Cursor) -> bool:
    before = [cursor.tokens[cursor.at - n].key for n in (2, 3) if cursor.at >= n]
    return bool(before) and (before[0] == "IS" or (before[0] == "NOT" and before[-1] == "IS"))


class QueryParser:
    """Reads queries and expressions at a cursor into scopes."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._ctes: frozenset[str] = frozenset()

    # ---------------------------------------------------------------- fragments

    def query_fragment(self) -> Fragment:
        """A whole query."""
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

    def with_clause(self, parent: Scope) -> None:
        """WITH name [(columns)] AS (query), ...; the names stay visible until the caller's query
        ends.
        """
        cursor = self.cursor
        cursor.expect("WITH")
        if cursor.key == "RECURSIVE":
            raise UnsupportedError("WITH RECURSIVE is not supported")
        while True:
            name = cursor.name("with clause")
            if cursor.key == "(":
                cursor.skip_parentheses()
            cursor.expect("AS", "(")
            self.query(parent.child())
            cursor.expect(")")
            self._ctes |= {name.lower()}
            if not cursor.accept(","):
                return

    def _body(self, parent: Scope) -> None:
        cursor = self.cursor
        last = self._term(parent)
        while cursor.key in _SET_OPERATORS:
            cursor.next()
            cursor.accept_any("ALL", "DISTINCT")
            last = self._term(parent)
        self._tails(last)

    def _term(self, parent: Scope) -> Scope:
        cursor = self.cursor
        if cursor.key == "(":
            cursor.next()
            scope = parent.child()
            self.query(scope)
            cursor.expect(")")
            return scope
        if cursor.key == "VALUES":
            scope = parent.child()
            self.values_rows(scope)
            return scope
        if cursor.key == "FROM":
            scope = parent.child()
            self.from_clause(scope)
            self.select_body(scope)
            return scope
        if cursor.key == "SELECT":
            scope = parent.child()
            self.select_body(scope)
            return scope
        raise cursor.unrecognized("query")

    def values_rows(self, scope: Scope) -> None:
        """VALUES (expression, ...), ..."""
        cursor = self.cursor
        cursor.expect("VALUES")
        while True:
            if cursor.key != "(":
                raise cursor.unrecognized("values clause")
            self._group(scope)
            if not cursor.accept(","):
                return

    def select_body(self, scope: Scope) -> None:
        """SELECT items [FROM ...] [WHERE ...] [GROUP BY ...] [HAVING ...] [WINDOW ...]"""
        cursor = self.cursor
        cursor.expect("SELECT")
        cursor.accept_any("ALL", "DISTINCT")
        if cursor.looking_at("TRANSFORM", "("):
            raise UnsupportedError("SELECT TRANSFORM is not supported")
        while True:
            self._select_item(scope)
            if not cursor.accept(","):
                break
        if cursor.key == "FROM":
            self.from_clause(scope)
        if cursor.accept("WHERE"):
            self.expression(scope, at_clause)
        if cursor.accept("GROUP", "BY"):
            self._expressions(scope)
        if cursor.accept("HAVING"):
            self.expression(scope, at_clause)
        if cursor.key == "WINDOW" and at_clause(cursor):
            cursor.next()
            self._expressions(scope)
        if cursor.key == "QUALIFY":
            raise UnsupportedError("QUALIFY is not supported")
        self._tails(scope)

    def _select_item(self, scope: Scope) -> None:
        cursor = self.cursor
        star = self._star()
        if star is not None:
            scope.stars.append(star)
            if not (cursor.key in (",", ")") or cursor.at_end() or at_clause(cursor)):
                raise cursor.unrecognized("select clause")
            return
        self.expression(scope, lambda c: c.key == "," or at_clause(c))

    def _star(self) -> Star | None:
        cursor, ahead = self.cursor, 0
        names = (TokenKind.WORD, TokenKind.QUOTED)
        while cursor.peek(ahead).kind in names and cursor.peek(ahead + 1).key == ".":
            ahead += 2
        if cursor.peek(ahead).key != "*":
            return None
        start = cursor.token.start
        qualifier = tuple(name_of(cursor.peek(n)) for n in range(0, ahead, 2))
        for _ in range(ahead):
            cursor.next()
        return Star(start, cursor.next().end, qualifier)

    def _tails(self, scope: Scope) -> None:
        """ORDER BY, SORT BY, CLUSTER BY, DISTRIBUTE BY, LIMIT, OFFSET in any order."""
        cursor = self.cursor
        while at_clause(cursor):
            if cursor.accept("ORDER", "BY") or cursor.accept("SORT", "BY"):
                self._sort_items(scope)
            elif cursor.accept("CLUSTER", "BY") or cursor.accept("DISTRIBUTE", "BY"):
                self._expressions(scope)
            elif cursor.key == "LIMIT":
                self._limit(scope)
            elif cursor.accept("OFFSET"):
                self.expression(scope, at_clause)
            else:
                return

    def _limit(self, scope: Scope) -> None:
        cursor = self.cursor
        start = cursor.next().start
        first = cursor.token
        self.expression(scope, lambda c: c.key == "," or at_clause(c))
        if cursor.accept(","):  # LIMIT offset, count
            count = cursor.token
            cursor.integer("limit clause")
            text = f"LIMIT {count.text} OFFSET {first.text}"
            scope.edits.append(Edit(start, count.end, text))

    def _expressions(self, scope: Scope) -> None:
        while True:
            self.expression(scope, lambda c: c.key == "," or at_clause(c))
            if not self.cursor.accept(","):
                return

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
            elif self._join_words(scope):
                self._relation(scope)
                if cursor.accept("ON"):
                    self.expression(scope, lambda c: at_clause(c) or _at_join(c))
                elif cursor.accept("USING"):
                    scope.merged_columns = True
                    cursor.skip_parentheses()
            else:
                return

    def _join_words(self, scope: Scope) -> bool:
        cursor = self.cursor
        if not _at_join(cursor) or cursor.key == ",":
            return False
        while cursor.key != "JOIN":
            scope.merged_columns |= cursor.key == "NATURAL"
            cursor.next()
        cursor.next()
        return True

    def _relation(self, scope: Scope) -> None:
        cursor = self.cursor
        lateral = cursor.key == "LATERAL" and cursor.peek(1).key == "("
        if lateral:
            cursor.next()
        if cursor.key == "TABLE" and cursor.peek(1).key == "(" and cursor.peek(2).key == "VALUES":
            table = cursor.next()
            scope.edits.append(Edit(table.start, table.end, ""))
        if cursor.key == "(":
            self._parenthesised(scope, lateral=lateral)
        else:
            self._named_relation(scope)

    def _parenthesised(self, scope: Scope, *, lateral: bool) -> None:
        cursor = self.cursor
        ahead = 0
        while cursor.peek(ahead).key == "(":
            ahead += 1
        if cursor.peek(ahead).key in ("SELECT", "WITH", "FROM", "VALUES"):
            start, count = cursor.at, len(scope.children)
            cursor.next()
            self.query(scope.child())
            if cursor.accept(")"):
                if not lateral and count < len(scope.children):
                    scope.children[
                        count
                    ].parent = None  # a derived table does not see its neighbours
                label, _ = self._alias()
                scope.relations.append(Relation((), label))
                return
            cursor.at = start
            del scope.children[count:]
        cursor.expect("(")
        self._relations(scope)
        cursor.expect(")")
        self._alias()

    def _named_relation(self, scope: Scope) -> None:
        cursor = self.cursor
        start = cursor.token.start
        parts = cursor.dotted_name()
        end = cursor.tokens[cursor.at - 1].end
        if cursor.key == "(":  # a table function
            self._region(scope, lambda c: c.key != "(" and c.tokens[c.at - 1].key == ")")
            label, _ = self._alias()
            scope.relations.append(Relation((), label))
            return
        if cursor.key == "FOR" and cursor.peek(1).key in ("SYSTEM_TIME", "SYSTEM_VERSION"):
            raise UnsupportedError("FOR SYSTEM_TIME is not supported", table=".".join(parts))
        if cursor.accept("TABLESAMPLE"):
            cursor.skip_parentheses()
        alias_at = cursor.tokens[cursor.at - 1].end
        label, aliased = self._alias()
        if cursor.key == "TABLESAMPLE":
            raise UnsupportedError("TABLESAMPLE must stand before the alias")
        cte = len(parts) == 1 and parts[0].lower() in self._ctes
        where = None if aliased else alias_at
        scope.relations.append(Relation(parts, label or parts[-1], start, end, where, cte))

    def _alias(self) -> tuple[str, bool]:
        """[[AS] alias [(columns)]] -> the alias and whether there is one."""
        cursor = self.cursor
        if not cursor.accept("AS") and (
            not cursor.at_alias() or _at_join(cursor) or at_clause(cursor)
        ):
            return "", False
        alias = cursor.name("table alias")
        if cursor.key == "(":
            cursor.skip_parentheses()
        return alias, True

    def _lateral_view(self, scope: Scope) -> None:
        cursor = self.cursor
        cursor.expect("LATERAL", "VIEW")
        cursor.accept("OUTER")
        cursor.dotted_name()
        if cursor.key != "(":
            raise cursor.unrecognized("lateral view")
        self._region(scope, lambda c: c.key != "(" and c.tokens[c.at - 1].key == ")")
        label = ""
        if (
            cursor.key != "AS"
            and cursor.at_alias()
            and not at_clause(cursor)
            and not _at_join(cursor)
        ):
            label = cursor.name("lateral view")
        if cursor.accept("AS"):
            cursor.name("lateral view")
            while cursor.key == "," and _column_alias_follows(cursor):
                cursor.next()
                cursor.name("lateral view")
        scope.relations.append(Relation((), label))

    # ---------------------------------------------------------------- expressions

    def expression(self, scope: Scope, stop: Stop) -> None:
        """One expression; it must not be empty."""
        start = self.cursor.at
        self._region(scope, stop)
        if self.cursor.at == start:
            raise self.cursor.unrecognized("expression specification")

    def _region(self, scope: Scope, stop: Stop) -> None:
        """Tokens up to ``stop``, a closing parenthesis or the end, subqueries included."""
        cursor, cases = self.cursor, 0
        while not cursor.at_end() and cursor.key not in (")", ";"):
            if cases == 0 and stop(cursor):
                return
            if cursor.key == "CASE":
                cases += 1
            elif cursor.key == "END" and cases:
                cases -= 1
            self._step(scope)

    def _step(self, scope: Scope) -> None:
        cursor = self.cursor
        token = cursor.token
        if token.key == "(":
            self._group(scope)
        elif token.key in ("CAST", "TRY_CAST") and cursor.peek(1).key == "(":
            self._cast(scope)
        elif cursor.looking_at("ORDER", "BY") or cursor.looking_at("SORT", "BY"):
            within_group = cursor.at > 1 and cursor.tokens[cursor.at - 2].key == "GROUP"
            cursor.skip(2)
            self._sort_items(scope, write=not within_group)
        elif token.kind is TokenKind.STRING:
            cursor.next()
            if cursor.token.kind is TokenKind.STRING and cursor.token.start == token.end:
                scope.edits.append(Edit(token.end, token.end, " "))
        elif cursor.looking_at("CURRENT_DATABASE", "(", ")"):
            for _ in range(3):
                end = cursor.next().end
            scope.current_database.append((token.start, end))
        elif token.kind in (TokenKind.WORD, TokenKind.QUOTED):
            self._name(scope)
        else:
            cursor.next()

    def _group(self, scope: Scope) -> None:
        cursor = self.cursor
        cursor.expect("(")
        if cursor.key in ("SELECT", "WITH", "VALUES") or (
            cursor.key == "FROM" and cursor.peek(1).kind is not TokenKind.SYMBOL
        ):
            self.query(scope)
        else:
            self._region(scope, _never)
        cursor.expect(")")

    def _name(self, scope: Scope) -> None:
        cursor = self.cursor
        first = cursor.next()
        parts, second = [name_of(first)], first.start
        while cursor.key == "." and cursor.peek(1).kind in (TokenKind.WORD, TokenKind.QUOTED):
            cursor.next()
            token = cursor.next()
            second = token.start if len(parts) == 1 else second
            parts.append(name_of(token))
        for index, part in enumerate(parts):
            upper = part.upper()
            if upper == "ROW__ID":
                scope.row_ids.append(tuple(parts[:index]))
            elif upper in _VIRTUAL_COLUMNS:
                line, column = position(cursor.source, first.start)
                raise UnsupportedError(
                    f"virtual column {upper} is not supported", line=line, column=column
                )
        if len(parts) >= 3:
            scope.dotted.append(DottedName(first.start, second, tuple(parts)))

    def _cast(self, scope: Scope) -> None:
        """CAST(expression AS type): types that Spark spells or treats otherwise."""
        cursor = self.cursor
        start = cursor.next().start
        cursor.expect("(")
        self.expression(scope, lambda c: c.key == "AS")
        cursor.expect("AS")
        kind = cursor.token
        words = [cursor.peek(n).key for n in range(5)]
        if kind.key in ("CHAR", "VARCHAR") and words[1] == "(":
            cursor.skip(2)
            length = cursor.integer("type length")
            close = cursor.token.end
            cursor.expect(")")
            opening, closing = ("left(", ")") if kind.key == "VARCHAR" else ("rtrim(left(", "))")
            scope.edits.append(Edit(start, start, opening))
            scope.edits.append(Edit(kind.start, close, "string"))
            scope.edits.append(Edit(cursor.token.end, cursor.token.end, f", {length}{closing}"))
        elif words[:5] == ["TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"]:
            scope.edits.append(Edit(kind.start, cursor.peek(4).end, "timestamp_ltz"))
        elif words[:2] == ["DOUBLE", "PRECISION"]:
            scope.edits.append(Edit(kind.start, cursor.peek(1).end, "double"))
        self._region(Scope(), _never)
        cursor.expect(")")

    def _sort_items(self, scope: Scope, *, write: bool = True) -> None:
        cursor = self.cursor
        while True:
            self.expression(scope, _at_sort_item_end)
            descending = cursor.accept_any("ASC", "DESC") == "DESC"
            if cursor.accept("NULLS"):
                if cursor.accept_any("FIRST", "LAST") is None:
                    raise cursor.unrecognized("null ordering")
            elif write:
                end = cursor.tokens[cursor.at - 1].end
                scope.edits.append(Edit(end, end, " NULLS FIRST" if descending else " NULLS LAST"))
            if not cursor.accept(","):
                return


def _never(cursor: Cursor) -> bool:
    del cursor
    return False


def _at_sort_item_end(cursor: Cursor) -> bool:
    if cursor.key in (",", "ASC", "DESC", "ROWS", "RANGE") or at_clause(cursor):
        return True
    return cursor.key == "NULLS" and cursor.peek(1).key in ("FIRST", "LAST")


def _at_join(cursor: Cursor) -> bool:
    """True at the words of a join (or the comma of a FROM list)."""
    if cursor.key in (",", "JOIN"):
        return True
    if cursor.key not in ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI", "SEMI"):
        return False
    follower = cursor.peek(1).key
    return follower in ("JOIN", "OUTER", "SEMI", "ANTI", "LEFT", "RIGHT", "FULL", "INNER")


def _column_alias_follows(cursor: Cursor) -> bool:
    """After a lateral view's column alias: is what follows the comma another one, not a
    relation?
    """
    after = cursor.peek(2)
    return after.key in (",", "LATERAL", "WHERE", "GROUP", ")", "ORDER", "LIMIT") or (
        after.kind is TokenKind.END or after.key in ("JOIN", "HAVING", "UNION", "SELECT", "INSERT")
    )
