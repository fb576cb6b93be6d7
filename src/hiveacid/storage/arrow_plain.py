"""Arrow arrays whose values stand elsewhere, or in another order, made plain ones: those of a
dictionary, of runs, of an extension type, views.

Arrow's own functions know some of these types, and its cast of a list view reads past the end of
its buffers. So what a user hands in is made plain once (``plain_table``), and then is what the
other functions here know: numbers, times, texts, lists, maps and structs of such.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LIST_VIEWS: Final = ("list_view", "large_list_view")
_VIEWS: Final = {"string_view": pa.string(), "binary_view": pa.binary()}
_ELSEWHERE: Final = frozenset({"dictionary", "run_end_encoded", *_LIST_VIEWS, *_VIEWS})
"""By their names: older versions of Arrow lack some."""


def plain_table(rows: pa.Table) -> pa.Table:
    """The rows with plain values, at any depth.

    Raises:
        ArrowInvalid: a column becomes larger than a type of Arrow can hold.
    """
    for place, field in enumerate(rows.schema):
        if _is_elsewhere(field.type):
            chunks = rows.column(place).chunks or [pa.nulls(0, field.type)]
            column = pa.chunked_array([_plain_below(chunk) for chunk in chunks])
            rows = rows.set_column(place, field.name, column)
    return rows


def _is_elsewhere(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType) or _name(kind) in _ELSEWHERE:
        return True
    return any(_is_elsewhere(kind.field(place).type) for place in range(kind.num_fields))


def _name(kind: pa.DataType) -> str:
    return str(kind).partition("<")[0]


def _plain_below(array: pa.Array) -> pa.Array:
    """The array with plain values, at any depth."""
    array = plain(array)
    kind = array.type
    if not _is_elsewhere(kind) or pa.types.is_union(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_plain_below(child) for child in array.flatten()]
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if pa.types.is_map(kind):
        pairs = pairs_of(array)
        keys, items = map(_plain_below, pairs.flatten().flatten())
        return pa.MapArray.from_arrays(list_offsets(pairs), keys, items)
    return pa.ListArray.from_arrays(list_offsets(array), _plain_below(array.flatten()))


def plain(array: pa.Array) -> pa.Array:
    """The values themselves, where Arrow has them elsewhere; those within them are as they were."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    name = _name(array.type)
    if name == "dictionary":
        return _plain_below(array.dictionary).take(array.indices)
    if name == "run_end_encoded":
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, _plain_below(array.values))
        return pc.run_end_decode(runs).slice(array.offset, len(array))
    if name in _LIST_VIEWS:
        return pa.ListArray.from_arrays(list_offsets(array), array.flatten())
    return array.cast(_VIEWS[name]) if name in _VIEWS else array


def pairs_of(array: pa.MapArray) -> pa.ListArray:
    """A map as a list of structs of ``key`` and ``value``, with the map's own values: Arrow's cast
    refuses a null struct whose fields are declared not null, as Spark's are.
    """
    pairs = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(pairs.type), len(array), array.buffers()[:2], offset=array.offset, children=[pairs]
    )


def list_offsets(lists: pa.Array) -> pa.Array:
    """Where each list begins in ``lists.flatten()`` (int32), null for a null list; then the end.

    Raises:
        ArrowInvalid: there are more items than lists of Arrow can hold.
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    null = np.append(lists.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(offsets, mask=null).cast(pa.int32())
