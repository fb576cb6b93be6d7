"""What the grammar makes of a text: DML and queries with names as written, their expressions as
fragments of the text in scopes.

A ``Scope`` is one SELECT (or one free-standing expression); it owns the relations of its FROM
clause and the places where the meaning depends on them. Offsets are into the statement's source
text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.statements.values import VirtualColumn


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the source text from ``start`` up to ``end`` by ``text``."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Relation:
    """A relation of a FROM clause.

    ``parts`` is the name as written, empty for a subquery, a table function or a lateral view.
    ``label`` is what columns may be qualified with ('' for none). ``alias_at`` is where an alias
    must be put if the name is replaced, None if there is one. ``cte`` says that the name is that
    of a WITH query, ``target`` that it is the table which the statement changes: expressions may
    name it, the text does not hold it.
    """

    parts: tuple[str, ...]
    label: str
    start: int = 0
    end: int = 0
    alias_at: int | None = None
    cte: bool = False
    target: bool = False
    query: Scope | None = None
    """The scope that holds a derived table's query."""


@dataclass(frozen=True, slots=True)
class Item:
    """A select item: the name of its column ('' for none), and the dotted name that it is, empty
    where it is an expression.
    """

    name: str
    column: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Star:
    """``*`` or ``qualifier.*`` as a select item."""

    start: int
    end: int
    qualifier: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DottedName:
    """Three or more names with dots: perhaps ``database.table.column``; ``second`` is where
    ``table`` starts.
    """

    start: int
    second: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VirtualName:
    """A mention of a virtual column, qualified or not."""

    column: VirtualColumn
    qualifier: tuple[str, ...]


@dataclass(slots=True)
class Scope:
    """One SELECT, or one expression outside of any; ``edits`` need no catalog."""

    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    stars: list[Star] = field(default_factory=list)
    virtual: list[VirtualName] = field(default_factory=list)
    dotted: list[DottedName] = field(default_factory=list)
    current_database: list[tuple[int, int]] = field(default_factory=list)
    merged_columns: bool = False
    where: tuple[int, int] | None = None
    """Offsets of the WHERE condition."""
    items: list[Item] = field(default_factory=list)
    """The select items that are no stars."""
    filters_early: bool = True
    """Whether a condition on the result can be taken on the rows that go in: nothing is grouped,
    limited, sampled or seen through a window."""
    body: Scope | None = None
    """The one SELECT of the query that was read into this scope; None for several."""
    children: list[Scope] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def child(self) -> Scope:
        """A scope inside this one."""
        scope = Scope(parent=self)
        self.children.append(scope)
        return scope


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text to be spliced: ``pieces`` are (start, end) offsets, put together with blanks; ``scope``
    is its root.
    """

    source: str
    pieces: tuple[tuple[int, int], ...]
    scope: Scope

    @property
    def text(self) -> str:
        """The pieces as the user wrote them."""
        return " ".join(self.source[start:end] for start, end in self.pieces)


@dataclass(frozen=True, slots=True)
class DefaultKeyword:
    """The word DEFAULT in the place of a value."""


ParsedExpression = Fragment | DefaultKeyword


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """VALUES rows in which DEFAULT occurs or a cell is not a plain literal."""

    rows: tuple[tuple[ParsedExpression, ...], ...]
