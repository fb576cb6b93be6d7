"""Hive types as Spark types and back, and store assignment: what a value becomes in a column.

char(n) and varchar(n) are strings in a DataFrame (as in Spark's own Hive support); their lengths
are kept in the catalog and on disk. A union is a struct of ``tag``, ``field0``, ... (read only).
Hive's ``timestamp`` is Spark's ``timestamp`` in the session's time zone.

``hive`` (default) assigns as Hive was seen to do (real-hive.md 9): char and varchar are cut
silently, decimals round half up, what cannot be converted is NULL. ``ansi`` raises instead:
``ConversionError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.layout.directories import DEFAULT_PARTITION, default_partition_value
from hiveacid.model.moment_texts import BLANKS, CLOCK, DAY
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
    parse_type,
)
from hiveacid.spark.session import literal, quoted

ROW_ID_TYPE: t.StructType = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)
_PRIMITIVES: dict[str, type[t.DataType]] = {
    "boolean": t.BooleanType,
    "tinyint": t.ByteType,
    "smallint": t.ShortType,
    "int": t.IntegerType,
    "bigint": t.LongType,
    "float": t.FloatType,
    "double": t.DoubleType,
    "string": t.StringType,
    "binary": t.BinaryType,
    "date": t.DateType,
    "timestamp": t.TimestampType,
    "timestamp with local time zone": t.TimestampType,
    "void": t.NullType,
}


def spark_type(kind: HiveType) -> t.DataType:
    """The Spark type that a column of ``kind`` has in a DataFrame.

    Raises:
        UnsupportedError: for interval types.
    """
    if isinstance(kind, PrimitiveType) and kind.name in _PRIMITIVES:
        return _PRIMITIVES[kind.name]()
    if isinstance(kind, DecimalType):
        return t.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, CharType | VarcharType):
        return t.StringType()
    if isinstance(kind, ListType):
        return t.ArrayType(spark_type(kind.element))
    if isinstance(kind, MapType):
        return t.MapType(spark_type(kind.key), spark_type(kind.value))
    if isinstance(kind, StructType):
        return t.StructType([t.StructField(name, spark_type(f)) for name, f in kind.fields])
    if isinstance(kind, UnionType):
        return spark_type(kind.as_struct)
    raise UnsupportedError(f"the type {kind} cannot be read through Spark", type=str(kind))


def hive_type(kind: t.DataType) -> HiveType:
    """The Hive type of a DataFrame column of type ``kind``.

    Raises:
        UnsupportedError: for a type that Hive does not have.
    """
    if isinstance(kind, t.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, t.ArrayType):
        return ListType(hive_type(kind.elementType))
    if isinstance(kind, t.MapType):
        return MapType(hive_type(kind.keyType), hive_type(kind.valueType))
    if isinstance(kind, t.StructType):
        return StructType(tuple((f.name.lower(), hive_type(f.dataType)) for f in kind.fields))
    if isinstance(kind, t.CharType):
        return CharType(kind.length)
    if isinstance(kind, t.VarcharType):
        return VarcharType(kind.length)
    if isinstance(kind, t.TimestampNTZType):
        return PrimitiveType("timestamp")
    for name, cls in _PRIMITIVES.items():
        if type(kind) is cls:
            return PrimitiveType(name)
    raise UnsupportedError(
        f"Hive has no type for Spark's {kind.simpleString()}", type=kind.simpleString()
    )


HIVE_TYPE: Final = "hiveacid.type"
"""In a column's metadata its type in Hive: Spark has char and varchar as strings."""


def hive_type_of(field: t.StructField) -> HiveType:
    """The Hive type of a query's column: of the table's column that it is, else of its values.

    Raises:
        UnsupportedError: for a type that Hive does not have.
    """
    told = field.metadata.get(HIVE_TYPE)
    found = parse_type(told) if told else None
    if found is not None and spark_type(found) == field.dataType:
        return found
    return hive_type(field.dataType)


# -------------------------------------------------------------------- pieces of Spark SQL text
# Pieces of Spark SQL text.
#
# Our own expressions are text: one call to Spark for a projection, where a tree of ``Column``
# objects costs several for every node.


CONSTRAINT_TEXT: Final = "Either CHECK or NOT NULL constraint violated!"
"""Hive's words (real-hive.md 6)."""
_HIVE_INTEGERS: Final[Mapping[type, str]] = {
    t.ByteType: "tinyint",
    t.ShortType: "smallint",
    t.IntegerType: "int",
    t.LongType: "bigint",
}
_NUMBERS: Final = (*_HIVE_INTEGERS, t.FloatType, t.DoubleType)
CONVERSION_MARK: Final = "HIVEACID-CONVERSION"
"""Stands in the message of the error that ``ansi`` raises inside Spark, so that the driver knows
it.
"""


def stored_type(kind: HiveType) -> t.DataType:
    """The Spark type in which a column goes to the writer: a timestamp as wall clock, without
    zone.
    """
    return _wall_clock(spark_type(kind), zoned=str(kind) == "timestamp with local time zone")


def _wall_clock(kind: t.DataType, *, zoned: bool = False) -> t.DataType:
    if isinstance(kind, t.TimestampType) and not zoned:
        return t.TimestampNTZType()
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_wall_clock(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(_wall_clock(kind.keyType), _wall_clock(kind.valueType))
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(f.name, _wall_clock(f.dataType)) for f in kind.fields])
    return kind


def assign(
    frame: DataFrame, columns: Sequence[Column], *, ansi: bool, ansi_session: bool
) -> DataFrame:
    """``frame``'s first columns, by position, as ``columns``; further columns of ``frame`` stay as
    they are.

    ``ansi`` is the store assignment; ``ansi_session`` whether the session's own casts raise.
    """
    width = len(columns)
    names = [f"__hiveacid_v{i}" for i in range(width)]
    given = frame.toDF(*names, *frame.columns[width:])
    types = [field.dataType for field in given.schema.fields]
    out = [
        f"{assigned_text(name, kind, column, ansi=ansi, ansi_session=ansi_session)}"
        f" as {quoted(column.name)}"
        for name, kind, column in zip(names, types[:width], columns, strict=True)
    ]
    return given.selectExpr(*out, *[quoted(name) for name in frame.columns[width:]])


def assigned_text(
    name: str, given: t.DataType, column: Column, *, ansi: bool, ansi_session: bool
) -> str:
    """Spark SQL that makes of column ``name``, of type ``given``, what ``column`` stores."""
    part = partial(_part, column=column, ansi=ansi, ansi_session=ansi_session)
    text, found = _assigned(name, given, column.type, part, column=column, strict=ansi)
    if found != stored_type(column.type):  # a struct by position, or types of which one is nested
        text = part(text, found, column.type)
    return text


_Part = Callable[[str, t.DataType, HiveType], str]
"""What a value becomes, from its text, its type and that of the column."""


def _part(
    name: str,
    given: t.DataType,
    kind: HiveType,
    *,
    column: Column,
    ansi: bool,
    ansi_session: bool,
) -> str:
    """What a value that is not looked into becomes, as ``stored_type``: a column's own, or one
    within an array, a map or a struct.
    """
    target = stored_type(kind)
    text = name
    if isinstance(given, t.BooleanType) and isinstance(target, t.StringType):
        text = f"upper(cast({name} as string))"
    elif not ansi and isinstance(given, t.StringType) and isinstance(target, t.BooleanType):
        text = f"lower({name}) not in ('', '0', 'false', 'no', 'off')"
    elif not ansi and str(kind) in INTEGER_BITS and isinstance(given, _NUMBERS):
        text = _wrapped(name, given, str(kind))
    elif not ansi and str(kind) in INTEGER_BITS and isinstance(given, t.StringType):
        text = f"try_cast({_whole_part(name)} as {kind})"
    elif not ansi and isinstance(given, t.StringType) and str(kind) in ("date", "timestamp"):
        text = _moment(name, type_text(target))
    elif not ansi and isinstance(given, t.StringType) and str(kind) in ("float", "double"):
        number = f"not contains({name}, 'n') and not contains({name}, 'N')"
        known = f"{number} or {name} rlike 'NaN|Infinity'"  # as Java has them: nan, inf are NULL
        text = f"try_cast(case when {known} then {name} end as {kind})"
    elif given != target:
        if isinstance(given, t.FloatType) and isinstance(target, t.DecimalType):
            name = f"cast({name} as string)"  # Hive takes the digits it shows
        raising = (
            ansi or ansi_session or isinstance(given, t.DecimalType)
        )  # a plain cast would wrap
        word = "try_cast" if raising else "cast"
        # A wall clock is that of a moment; but no day begins an hour later where clocks are set.
        read = target if isinstance(given, t.DateType) else spark_type(kind)
        text = name if given == read else f"{word}({name} as {type_text(read)})"
        text = text if read == target else f"cast({text} as {type_text(target)})"
    if isinstance(kind, CharType | VarcharType):
        cut = f"substring({text}, 1, {kind.length})"
        lost = f"rtrim({text}) <> rtrim({cut})" if ansi else None
        text, check = cut, lost
    else:
        lossless = given in (target, spark_type(kind))
        check = f"{name} is not null and {text} is null" if ansi and not lossless else None
    if check is None:
        return text
    message = f"{CONVERSION_MARK} column {column.name} of type {column.type}: "
    return (
        f"case when {check} then raise_error(concat('{message}', cast({name} as string)))"
        f" else {text} end"
    )


def _whole_part(name: str) -> str:
    """The text of a number without its fraction, NULL for other texts: blanks, the end of a line
    and exponents are refused (real-hive.md 9), while a cast trims, and takes fractions in a session
    without ANSI.
    """
    return (
        f"case when {name} rlike '(?s)^[+-]?[0-9]+([.][0-9]*)?(?!.)' then"
        f" substring_index({name}, '.', 1)"
        f" when {name} rlike '(?s)^[+-]?[.][0-9]+(?!.)' then '0' end"
    )


_USUAL_DAY: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_USUAL: Final = {
    "date": f"{_USUAL_DAY}$",
    "timestamp_ntz": f"{_USUAL_DAY} [0-9:]{{8}}([.][0-9]{{1,9}})?$",
}


def _moment(name: str, kind: str) -> str:
    """A text as a date or wall clock, as ``model/moment_texts.py``. A cast takes '2020' for its
    first day, and a time in a zone for that moment; it is used, and quicker, for texts of the usual
    form.
    """
    given = f"regexp_extract({name}, '^{BLANKS}{DAY}', 1)"
    day = f"lpad({given}, greatest(10, length({given})), '0')"
    form = f"^{BLANKS}[0-9-]+{CLOCK}$"
    both = f"concat({day}, ' ', regexp_extract({name}, '{form}', 1))"
    other = f"try_cast({both} as {kind}), " if kind != "date" else ""
    usual = f"case when {name} rlike '{_USUAL[kind]}' then try_cast({name} as {kind}) end"
    return f"coalesce({usual}, {other}try_cast({day} as {kind}))"


def _wrapped(name: str, given: t.DataType, kind: str) -> str:
    """A number as an integer of so many bits, as Java narrows it (real-hive.md 9): integers keep
    their lowest bits, fractions become bigints first. Casts do not: they raise in a session with
    ANSI on, and take doubles to the nearest integer without.
    """
    bits = INTEGER_BITS[kind]
    if isinstance(given, t.FloatType | t.DoubleType):
        name = (
            f"case when isnan({name}) then 0L"
            f" when {name} >= 9223372036854775808D then 9223372036854775807L"
            f" when {name} <= -9223372036854775808D then -9223372036854775807L - 1L"
            f" else cast({name} as bigint) end"
        )
    elif INTEGER_BITS[_HIVE_INTEGERS[type(given)]] <= bits:
        return f"cast({name} as {kind})"
    if kind == "bigint":
        return name
    sign = f"{2 ** (bits - 1)}L"
    return f"cast((({name} & {2**bits - 1}L) ^ {sign}) - {sign} as {kind})"


def _assigned(
    text: str,
    given: t.DataType,
    kind: HiveType,
    part: _Part,
    *,
    column: Column,
    strict: bool,
    depth: int = 0,
) -> tuple[str, t.DataType]:
    """``text`` as ``kind``, and its type then: ``part`` of each value in it, at any depth, structs
    by the names of their fields; a cast of Spark's goes by position, and makes NULL of a value
    within.

    Fields that share no name with the column's (``struct(1, 2)``) are taken by position, unless
    ``strict``: they, and what is nested on one side only, come back as they are.

    Raises:
        ConversionError: a struct has fields of other names.
    """
    into = partial(_assigned, part=part, column=column, strict=strict, depth=depth + 1)
    item = f"__hiveacid_e{depth}"
    if isinstance(kind, StructType) and isinstance(given, t.StructType):
        return _assigned_struct(text, given, kind, into, column=column, strict=strict)
    if isinstance(kind, ListType) and isinstance(given, t.ArrayType):
        one, element = into(item, given.elementType, kind.element)
        text = text if one == item else f"transform({text}, {item} -> {one})"
        return text, t.ArrayType(element)
    if isinstance(kind, MapType) and isinstance(given, t.MapType):
        key, key_type = into(item, given.keyType, kind.key)
        value, value_type = into(item, given.valueType, kind.value)
        text = f"transform_keys({text}, ({item}, {item}_v) -> {key})" if key != item else text
        if value != item:
            text = f"transform_values({text}, ({item}_k, {item}) -> {value})"
        return text, t.MapType(key_type, value_type)
    nested = (t.StructType, t.ArrayType, t.MapType)
    if isinstance(given, nested) or isinstance(kind, StructType | ListType | MapType):
        return text, given
    return part(text, given, kind), stored_type(kind)


def _assigned_struct(
    text: str,
    given: t.StructType,
    kind: StructType,
    into: Callable[[str, t.DataType, HiveType], tuple[str, t.DataType]],
    *,
    column: Column,
    strict: bool,
) -> tuple[str, t.DataType]:
    """``_assigned`` of a struct; ``into`` is that of a field."""
    names = [field.name.lower() for field in given.fields]
    wanted = [name.lower() for name, _ in kind.fields]
    if sorted(names) != sorted(wanted):
        if strict or not set(names).isdisjoint(wanted):
            raise ConversionError(
                f"column {column.name}: a struct of the fields {', '.join(names)} does not fit"
                f" {kind}",
                column=column.name,
                type=str(kind),
            )
        return text, given
    fields = [given.fields[names.index(name)] for name in wanted]
    were = [f"{text}.{quoted(field.name)}" for field in fields]
    parts = [
        into(was, field.dataType, child)
        for was, field, (_, child) in zip(were, fields, kind.fields, strict=True)
    ]
    made = t.StructType(list(map(t.StructField, wanted, (found for _, found in parts))))
    if names == wanted and were == [one for one, _ in parts]:
        return text, made
    pairs = ", ".join(
        f"{literal(name)}, {one}" for name, (one, _) in zip(wanted, parts, strict=True)
    )
    return f"if({text} is null, null, named_struct({pairs}))", made


def partition_text(column: Column) -> str:
    """The text of a partition column's value in a directory name; NULL stands for the default
    partition. Zeros do not end a fraction (1.5 for 1.50), as in Hive.

    An empty string goes to the default partition too, and so does that partition's name, which is
    how its rows read (real-hive.md 9).
    """
    text = f"cast({quoted(column.name)} as string)"
    if isinstance(column.type, DecimalType):
        scale = column.type.scale  # format_number, since a cast writes small ones as 1E-7
        text = f"replace(format_number({quoted(column.name)}, {scale}), ',')"
        return f"rtrim('.', rtrim('0', {text}))" if scale else text
    if isinstance(column.type, PrimitiveType) and column.type.name != "string":
        return text
    default = default_partition_value(column.type) or DEFAULT_PARTITION
    if isinstance(column.type, CharType):  # Hive 4.1 pads the names
        named = f"nullif(nullif(rtrim({text}), ''), {literal(default)})"
        return f"rpad({named}, {column.type.length}, ' ')"
    return f"nullif(nullif({text}, ''), {literal(default)})"


def type_text(kind: t.DataType) -> str:
    """A type as Spark reads it: in ``simpleString`` names of fields have no back-quotes."""
    if isinstance(kind, t.StructType):
        fields = (f"{quoted(field.name)}:{type_text(field.dataType)}" for field in kind.fields)
        return f"struct<{','.join(fields)}>"
    if isinstance(kind, t.ArrayType):
        return f"array<{type_text(kind.elementType)}>"
    if isinstance(kind, t.MapType):
        return f"map<{type_text(kind.keyType)},{type_text(kind.valueType)}>"
    return kind.simpleString()


def keys_from(columns: Sequence[Column], texts: Sequence[str]) -> list[str]:
    """Partition columns as select expressions, from expressions for their texts, which are NULL in
    the default partition.
    """
    return [
        f"{key_value(text, column)} as {quoted(column.name)}"
        for column, text in zip(columns, texts, strict=True)
    ]


def key_value(text: str, column: Column) -> str:
    """The value of a partition column from an expression for its text.

    The default partition of a text column reads as its name, cut to the column's length, as in
    Hive (real-hive.md 9). A name that the column's type cannot say (``d=junk`` of an int) is NULL,
    with ANSI, too.
    """
    default = default_partition_value(column.type)
    if default is not None:
        text = f"coalesce({text}, {literal(default)})"
    if isinstance(column.type, CharType):  # as chars of files read in Spark
        text = f"rtrim({text})"
    return f"try_cast({text} as {spark_type(column.type).simpleString()})"


def constrained(
    frame: DataFrame,
    *,
    not_null: Sequence[str],
    checks: Sequence[str],
    rows: str | None = None,
) -> DataFrame:
    """``frame`` with NOT NULL columns and CHECK conditions enforced where ``rows`` holds.

    A check that is NULL passes. A row that fails raises inside Spark: ``ConversionError``.
    """
    if not not_null and not checks:
        return frame
    broken = [f"{quoted(name)} is null" for name in not_null]
    broken += [f"not coalesce(({text}), true)" for text in checks]
    condition = " or ".join(broken)
    if rows is not None:
        condition = f"({condition}) and {rows}"
    # hung on one column that is written, so that it is not optimised away
    carrier = not_null[0] if not_null else frame.columns[0]
    failure = f"raise_error('{CONVERSION_MARK} {CONSTRAINT_TEXT}')"
    value = f"case when {condition} then {failure} else {quoted(carrier)} end as {quoted(carrier)}"
    return frame.selectExpr(*[value if name == carrier else quoted(name) for name in frame.columns])
