"""Hive types as Arrow types, and Arrow arrays made to fit a Hive type.

``char`` and ``varchar`` are Arrow strings; ``timestamp`` is microseconds without a zone,
``timestamp with local time zone`` microseconds in UTC. Hive has nanoseconds, and years 1 to 9999:
no type of Arrow holds both, and Spark reads microseconds; so what is read is cut to them unless
nanoseconds are asked for, and what is written keeps the unit it comes in. A union is a struct:
``tag``, then ``field0``, ... of which one is not null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.arrow_plain import list_offsets, pairs_of, plain

LOCAL_ZONED: Final = "timestamp with local time zone"
MICROSECONDS: Final = "us"
NANOSECONDS: Final = "ns"
TICKS: Final = {"s": 1, "ms": 10**3, MICROSECONDS: 10**6, NANOSECONDS: 10**9}
"""Of a second, by the unit of a timestamp's type."""
_PLAIN_LEAST: Final = 1e-3
_PLAIN_END: Final = 1e7
_SIGN_AND_EXPONENT: Final = (
    r"^(?P<sign>-?)(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*)(?:e(?P<power>[+-]?[0-9]+))?$"
)
_TO_ARROW: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    LOCAL_ZONED: pa.timestamp("us", tz="UTC"),
    "void": pa.null(),
}
_LISTS: Final = pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray
_FROM_ARROW: Final = {arrow: name for name, arrow in _TO_ARROW.items()}
_Values = TypeVar("_Values", pa.Array, pc.Expression)


def arrow_type(kind: HiveType, *, unit: str = MICROSECONDS) -> pa.DataType:
    """The Arrow type of a Hive type; ``unit`` is that of timestamps.

    Raises:
        UnsupportedError: an interval type.
    """
    if isinstance(kind, PrimitiveType):
        if kind.name not in _TO_ARROW:
            raise UnsupportedError(f"type {kind} cannot be stored", type=str(kind))
        found = _TO_ARROW[kind.name]
        return pa.timestamp(unit, found.tz) if pa.types.is_timestamp(found) else found
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, CharType | VarcharType):
        return pa.string()
    if isinstance(kind, ListType):
        return pa.list_(arrow_type(kind.element, unit=unit))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.key, unit=unit), arrow_type(kind.value, unit=unit))
    if isinstance(kind, StructType):
        return pa.struct(
            [pa.field(name, arrow_type(child, unit=unit)) for name, child in kind.fields]
        )
    return arrow_type(kind.as_struct, unit=unit)


def hive_type(arrow: pa.DataType) -> HiveType:
    """The Hive type of an Arrow type.

    Raises:
        UnsupportedError: Hive has no such type.
    """
    if arrow in _FROM_ARROW:
        return PrimitiveType(_FROM_ARROW[arrow])
    if pa.types.is_dictionary(arrow):
        return hive_type(arrow.value_type)
    if are_texts(arrow) or str(arrow) == "string_view":
        return PrimitiveType("string")
    if str(arrow) == "binary_view" or pa.types.is_fixed_size_binary(arrow):
        return PrimitiveType("binary")
    if pa.types.is_large_binary(arrow):
        return PrimitiveType("binary")
    if pa.types.is_date(arrow):
        return PrimitiveType("date")
    if pa.types.is_timestamp(arrow):
        return PrimitiveType("timestamp" if arrow.tz is None else LOCAL_ZONED)
    if (
        pa.types.is_decimal(arrow)
        and 1 <= arrow.precision <= 38
        and 0 <= arrow.scale <= arrow.precision
    ):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_map(arrow):
        return MapType(hive_type(arrow.key_type), hive_type(arrow.item_type))
    if isinstance(arrow, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return ListType(hive_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        fields = (arrow.field(i) for i in range(arrow.num_fields))
        return StructType(tuple((field.name.lower(), hive_type(field.type)) for field in fields))
    if pa.types.is_union(arrow):
        return UnionType(tuple(hive_type(arrow.field(i).type) for i in range(arrow.num_fields)))
    raise UnsupportedError(f"Hive has no type for Arrow's {arrow}", type=str(arrow))


def column_type(field: pa.Field) -> HiveType:
    """The type of a column that is made for values of Arrow.

    Raises:
        UnsupportedError: there is none; it says what to cast the column to.
    """
    try:
        return hive_type(field.type)
    except UnsupportedError as error:
        error.message = f"column {field.name}: {error.message}"
        error.context["column"] = field.name
        given, wanted = field.type, "string()"
        if pa.types.is_uint64(given):
            wanted = "decimal128(20, 0)"
        elif pa.types.is_float16(given):
            wanted = "float32()"
        elif pa.types.is_decimal256(given):
            wanted = f"decimal128(38, {min(max(given.scale, 0), 38)})"
        elif pa.types.is_duration(given) or pa.types.is_time(given):
            wanted = "int64()"
        error.add_note(f"Cast it first, as to pyarrow.{wanted}.")
        raise


def with_children(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A struct, list, map or dense union array whose children are changed, in order; itself where
    none is.
    """
    is_union = pa.types.is_union(array.type)
    if is_union or pa.types.is_struct(array.type):
        before = [array.field(i) for i in _places(array)]
        after = [change(child) for child in before]
        if all(a is b for a, b in zip(before, after, strict=True)):
            return array
        if is_union:
            return pa.UnionArray.from_dense(pa.array(array.type_codes), array.offsets, after)
        names = [field.name for field in array.type]
        mask = array.is_null() if array.null_count else None
        return struct_of(after, names, mask=mask)
    if pa.types.is_map(array.type):
        keys, items = change(array.keys), change(array.items)
        if keys is array.keys and items is array.items:
            return array
        kind = pa.map_(keys.type, items.type)
        child = pa.StructArray.from_arrays([keys, items], fields=list(kind.field(0).type))
    else:
        array = _plain_list(array)
        child = change(array.values)
        kind = pa.list_(child.type)
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )


def _plain_list(array: pa.Array) -> pa.ListArray:
    """The lists themselves, where Arrow has large ones or ones of one length."""
    return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of values of which an array of any depth is made; what lies below nulls is in."""
    kind = array.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        children = [array.field(place) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        children = [array.keys, array.items]
    elif pa.types.is_list(kind):
        children = [array.values]
    else:
        yield array
        return
    for child in children:
        yield from leaves(child)


def conform(array: pa.Array, kind: HiveType) -> pa.Array:
    """``array`` ready for the ORC writer as a column of type ``kind``; the same object where
    nothing is to do.

    Chars are blank padded to their length and varchars cut to theirs, as Hive's writer does.
    Any timestamp unit is kept; an array with a zone given for a ``timestamp`` becomes that zone's
    wall clock. A struct of tag and alternatives becomes the union. Struct arrays lose their offset,
    which Arrow's ORC writer ignores.

    Raises:
        ConversionError: a value does not fit the type, or no alternative has a union's tag.
        UnsupportedError: a union that is not given as such a struct, or inside another type.
    """
    try:
        return _conform_union(array, kind) if isinstance(kind, UnionType) else _conform(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConversionError(
            f"Arrow {array.type} values do not fit {kind}: {error}",
            type=str(kind),
            found=str(array.type),
        ) from error


def _conform(array: pa.Array, kind: HiveType) -> pa.Array:
    if isinstance(kind, UnionType):
        raise UnsupportedError(f"a {kind} inside another type cannot be written", type=str(kind))
    array = plain(array)
    if isinstance(kind, StructType) and pa.types.is_struct(array.type):
        return _conform_struct(array, kind)
    if isinstance(kind, MapType) and pa.types.is_map(array.type):
        return _conform_map(array, kind)
    if isinstance(kind, ListType) and isinstance(array, _LISTS):
        return _conform_list(_plain_list(array), kind)
    if isinstance(kind, CharType | VarcharType):
        return _conform_text(_text(array), kind)
    if isinstance(kind, PrimitiveType):
        if kind.name == "string":
            return _text(array)
        if kind.name in ("timestamp", LOCAL_ZONED):
            return _conform_timestamp(array, kind)
    target = arrow_type(kind)
    if pa.types.is_decimal(target) and pa.types.is_floating(array.type):
        with suppress(pa.ArrowInvalid):  # more digits than the type has: Arrow rounds
            return array.cast(pa.string()).cast(target)
    return array if array.type == target else cast_numbers(array, array.type, target)


def cast_numbers(values: _Values, given: pa.DataType, target: pa.DataType) -> _Values:
    """``values`` (of type ``given``) cast; a decimal becomes the nearest floating number, by its
    text: Arrow's own cast of 0.35 is 0.35000000000000003.
    """
    if pa.types.is_decimal(given) and pa.types.is_floating(target):
        values = values.cast(pa.string())
    return values.cast(target)


def _conform_union(array: pa.Array, kind: UnionType) -> pa.Array:
    """The union that a struct of tag and alternatives stands for; its first alternative's null
    where there is no tag.
    """
    if not pa.types.is_struct(array.type) or array.type.num_fields != len(kind.alternatives) + 1:
        raise UnsupportedError(f"columns of type {kind} are written from structs", type=str(kind))
    tags, *alternatives = array.flatten()  # what lies below a null struct does not count
    tags = pc.fill_null(tags.cast(pa.int8()), 0).to_numpy()
    unknown = tags[(tags < 0) | (tags >= len(kind.alternatives))]
    if len(unknown):  # Arrow does not look, and reads past the ends of its arrays
        raise ConversionError(f"{kind} has no alternative {unknown[0]}", type=str(kind))
    offsets = np.zeros(len(array), dtype=np.int32)
    children = []
    for tag, (values, alternative) in enumerate(zip(alternatives, kind.alternatives, strict=True)):
        chosen = tags == tag
        offsets[chosen] = np.arange(int(chosen.sum()), dtype=np.int32)
        children.append(_conform(values.filter(pa.array(chosen)), alternative))
    return pa.UnionArray.from_dense(pa.array(tags), pa.array(offsets), children)


def _conform_struct(array: pa.StructArray, kind: StructType) -> pa.Array:
    if array.type.num_fields != len(kind.fields):
        raise ConversionError(
            f"a struct of {array.type.num_fields} fields does not fit {kind}", type=str(kind)
        )
    # flatten gives the children the parent's nulls; Arrow's ORC writer forgets them below the root
    before = array.flatten() if array.null_count else [array.field(i) for i in _places(array)]
    after = [_conform(child, field) for child, (_, field) in zip(before, kind.fields, strict=True)]
    names = [name for name, _ in kind.fields]
    same = all(a is b for a, b in zip(before, after, strict=True))
    unchanged = same and names == [field.name for field in array.type]
    if unchanged and array.offset == 0 and array.null_count == 0:
        return array
    return struct_of(after, names, mask=array.is_null() if array.null_count else None)


def _places(array: pa.StructArray | pa.UnionArray) -> range:
    return range(array.type.num_fields)


def struct_of(
    children: Sequence[pa.Array], names: Sequence[str], *, mask: pa.Array | None
) -> pa.Array:
    """A struct array that Arrow's ORC writer writes rightly; ``mask`` marks null structs.

    Below a parent with nulls the writer ignores the offset of a slice, so slices are copied there.
    """
    if mask is not None:
        children = [
            child if child.offset == 0 else pa.concat_arrays([child, child.slice(0, 0)])
            for child in children
        ]
    return pa.StructArray.from_arrays(children, names=names, mask=mask)


def _conform_list(array: pa.ListArray, kind: ListType) -> pa.Array:
    values = array.values
    conformed = _conform(values, kind.element)
    if conformed is values and not _hides_values(array):
        return array
    return pa.ListArray.from_arrays(list_offsets(array), _conform(array.flatten(), kind.element))


def _conform_map(array: pa.MapArray, kind: MapType) -> pa.Array:
    keys, items = array.keys, array.items
    same = _conform(keys, kind.key) is keys and _conform(items, kind.value) is items
    if same and not _hides_values(array):
        return array
    lists = pairs_of(array)
    entries = lists.flatten()
    return pa.MapArray.from_arrays(
        list_offsets(lists),
        _conform(entries.field(0), kind.key),
        _conform(entries.field(1), kind.value),
    )


def _hides_values(array: pa.Array) -> bool:
    """Whether values lie below null lists; the ORC writer would count them."""
    if not array.null_count:
        return False
    offsets = array.offsets.to_numpy()
    return bool((np.diff(offsets)[array.is_null().to_numpy(zero_copy_only=False)] > 0).any())


def are_texts(arrow: pa.DataType) -> bool:
    """Whether values of this type are texts to Arrow's functions, which know no views."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _text(array: pa.Array) -> pa.Array:
    return array if are_texts(array.type) else texts_of(array)


def texts_of(array: pa.Array) -> pa.Array:
    """Values as Hive has them as texts: ``TRUE``, ``1.0``, ``1.0E20``, ``2020-01-01 00:00:00``."""
    if pa.types.is_floating(array.type):
        return java_numbers(array)
    text = array.cast(pa.string())
    if pa.types.is_timestamp(array.type):
        return pc.utf8_rtrim(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), ".")
    return pc.utf8_upper(text) if pa.types.is_boolean(array.type) else text


def java_numbers(array: pa.Array) -> pa.Array:
    """Floats and doubles as Java prints them: from 1e-3 to 1e7 plain, else with an exponent."""
    text = array.cast(pa.string())
    size = pc.abs(array)
    plain = pc.or_(
        pc.and_(pc.greater_equal(size, _PLAIN_LEAST), pc.less(size, _PLAIN_END)),
        pc.equal(size, 0),
    )
    special = pc.invert(pc.is_finite(array))
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    result = pc.if_else(whole, pc.binary_join_element_wise(text, "", ".0"), text)
    if pc.any(special).as_py():
        names = pc.if_else(
            pc.is_nan(array), "NaN", pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
        )
        result = pc.if_else(special, names, result)
    exponent = pc.invert(pc.or_(plain, special))
    if pc.any(exponent).as_py():
        result = pc.if_else(exponent, _scientific(text), result)
    return result


def _scientific(text: pa.Array) -> pa.Array:
    """``1.5e+20``, ``12345678.9`` or ``0.00015`` as ``1.5E20``, ``1.23456789E7``, ``1.5E-4``."""
    found = pc.extract_regex(text, _SIGN_AND_EXPONENT)
    sign, whole, rest, power = (pc.struct_field(found, [i]) for i in range(4))
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, "0")
    leading = pc.subtract(pc.binary_length(digits), pc.binary_length(significant))
    significant = pc.utf8_rtrim(significant, "0")
    power = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    power = pc.add(power, pc.subtract(pc.subtract(pc.binary_length(whole), leading), 1))
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    others = pc.utf8_slice_codeunits(significant, 1)
    others = pc.if_else(pc.equal(others, ""), "0", others)
    return pc.binary_join_element_wise(sign, first, ".", others, "E", power.cast(pa.string()), "")


def _conform_text(array: pa.Array, kind: CharType | VarcharType) -> pa.Array:
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest > kind.length:
        array = pc.utf8_slice_codeunits(array, 0, kind.length)
    if isinstance(kind, CharType):
        array = pc.utf8_rpad(array, kind.length, " ")
    return array


def _conform_timestamp(array: pa.Array, kind: PrimitiveType) -> pa.Array:
    if not pa.types.is_timestamp(array.type):
        return array.cast(arrow_type(kind))
    if kind.name == "timestamp" and array.type.tz is not None:
        array = pc.local_timestamp(array)
    if kind.name == "timestamp":
        return array
    if array.type.tz is None:
        return pc.assume_timezone(array, "UTC")
    return array if array.type.tz == "UTC" else array.cast(pa.timestamp(array.type.unit, tz="UTC"))


# -------------------------------------------------------------------- texts
# Texts that are no UTF-8, made such: what reads Arrow's strings relies on it.


def readable(array: pa.Array) -> pa.Array:
    """``array`` with bytes that are no UTF-8 replaced by U+FFFD, as Java reads them."""
    if not _holds_text(array.type) or _is_ascii(array):
        return array
    if pa.types.is_nested(array.type):
        return with_children(array, readable)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(
            pa.binary(), len(array), array.buffers(), offset=array.offset
        ).to_pylist()
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in raw],
            pa.string(),
        )
    return array


def _is_ascii(array: pa.Array) -> bool:
    """Whether all bytes of a column of texts are ASCII: told a hundred times faster than UTF-8."""
    if not pa.types.is_string(array.type):
        return False
    data = array.buffers()[2]
    return data is None or data.to_pybytes().isascii()


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type of Arrow's is one of numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
