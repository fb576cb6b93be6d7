"""What an ORC file says twice: its footer against itself, its data against the statistics.

ORC has no checksums. A flipped bit mostly breaks the compression, an encoding, or a count; where
it does not, the statistics that Java's and C++'s writers keep of each stripe tell: the number of
values, least, greatest and sum of integers, the bytes of texts, the number of trues. They do not
tell texts and binaries of the same length, timestamps, or values exchanged for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import FormatError
from hiveacid.storage.orc.decimal_digits import WORD_DIGITS, words_of

_JAVA, _CPP = 0, 1
_STATISTICS_OF: Final[Mapping[int, str]] = {
    0: "bucketStatistics",
    1: "intStatistics",
    2: "intStatistics",
    3: "intStatistics",
    4: "intStatistics",
    5: "doubleStatistics",
    6: "doubleStatistics",
    7: "stringStatistics",
    9: "timestampStatistics",
    14: "decimalStatistics",
    15: "dateStatistics",
    16: "stringStatistics",
    17: "stringStatistics",
    18: "timestampStatistics",
}
"""Kind of a type -> the statistics that a column of it may have."""
_KINDS_OF_STATISTICS: Final = frozenset(_STATISTICS_OF.values())
_STRUCT: Final = 12
_DECIMAL, _VARCHAR, _CHAR = 14, 16, 17
_PRECISION_MAX: Final = 38
_LENGTH_MAX: Final = 65_535
_FIRST_GREGORIAN_DAY: Final = -141_427


def check_footer(footer: Any) -> None:
    """The parts of a footer (a parsed message) fit together; its types are checked by
    ``check_types``.

    Raises:
        FormatError: they do not; context ``expected`` and ``found``.
    """
    rows = sum(stripe.numberOfRows for stripe in footer.stripes)
    if rows != footer.numberOfRows:
        raise damage(f"stripes of {footer.numberOfRows} rows", f"{rows} rows")
    if footer.statistics and len(footer.statistics) != len(footer.types):
        raise damage(f"statistics of {len(footer.types)} columns", f"{len(footer.statistics)}")
    for node, known in zip(footer.types, footer.statistics, strict=False):
        _check_kind(known, kind=node.kind)


def check_types(nodes: Sequence[Any]) -> None:
    """The types of a footer (parsed messages, the root first) make a tree.

    Raises:
        FormatError: they do not; context ``expected`` and ``found``.
    """
    if nodes[0].kind != _STRUCT:
        raise damage("a struct as root", f"kind {nodes[0].kind}")
    names = [name for node in nodes for name in node.fieldNames]
    if not all(isinstance(name, str) for name in names):
        raise damage("field names in UTF-8", repr(next(n for n in names if type(n) is not str)))
    children = sorted(child for node in nodes for child in node.subtypes)
    if children != list(range(1, len(nodes))):
        raise damage("each type below one other", f"types {children}")
    for node in nodes:
        _check_type(node)


def _check_type(node: Any) -> None:
    """Children, lengths, precision and scale are possible; old writers leave the precision out."""
    if node.kind in _STATISTICS_OF and (node.subtypes or node.fieldNames):
        raise damage(f"no types below one of kind {node.kind}", f"{list(node.subtypes)}")
    if (
        node.kind == _DECIMAL
        and node.precision
        and not (node.scale <= node.precision <= _PRECISION_MAX)
    ):
        raise damage("a decimal type", f"decimal({node.precision},{node.scale})")
    if node.kind in (_CHAR, _VARCHAR) and not 1 <= node.maximumLength <= _LENGTH_MAX:
        raise damage("a length of text", f"{node.maximumLength}")


def _check_kind(known: Any, *, kind: int) -> None:
    """The statistics are of the type's kind."""
    found = {field.name for field, _ in known.ListFields()} & _KINDS_OF_STATISTICS
    if found - {_STATISTICS_OF.get(kind, "")}:
        raise damage(f"statistics of a type of kind {kind}", ", ".join(found))


def is_checkable(footer: Any) -> bool:
    """Whether the writer is one whose statistics are known to be kept, and it kept them."""
    return footer.writer in (_JAVA, _CPP) and footer.rowIndexStride > 0


def check_column(array: pa.Array, known: Any, *, kind: int) -> None:
    """A stripe's column holds what its statistics (a parsed message) say.

    Raises:
        FormatError: it does not; context ``expected`` and ``found``.
    """
    if pa.types.is_union(array.type):
        return
    if known.HasField("numberOfValues"):
        _same("values", known.numberOfValues, len(array) - array.null_count)
    if known.HasField("intStatistics") and pa.types.is_integer(array.type):
        _check_integers(array, known.intStatistics)
    elif known.HasField("stringStatistics") and kind != _CHAR:
        sum_bytes = known.stringStatistics
        if sum_bytes.HasField("sum") and sum_bytes.sum >= 0 and not pa.types.is_nested(array.type):
            _same("bytes of text", sum_bytes.sum, _text_bytes(array))
    elif known.HasField("bucketStatistics") and pa.types.is_boolean(array.type):
        for count in known.bucketStatistics.count[:1]:
            _same("trues", count, pc.sum(array).as_py() or 0)
    elif known.HasField("dateStatistics") and pa.types.is_date32(array.type):
        if known.dateStatistics.minimum >= _FIRST_GREGORIAN_DAY:
            _check_ends(array.cast(pa.int32()), known.dateStatistics)
    elif known.HasField("doubleStatistics") and pa.types.is_floating(array.type):
        _check_floats(array, known.doubleStatistics)
    elif known.HasField("decimalStatistics") and pa.types.is_decimal(array.type):
        statistics = known.decimalStatistics
        fits = pa.types.is_decimal128(array.type) and array.type.precision <= WORD_DIGITS
        if array.null_count or not fits or not _has_ends(statistics):
            _check_ends(array, statistics, convert=_decimal)
        elif len(array):
            _check_words(array, statistics)


def _check_integers(array: pa.Array, known: Any) -> None:
    """By their sum, which another least or greatest value changes, too; by these without one."""
    if _has_ends(known) and known.HasField("sum"):
        # Both sides wrap round at 64 bits. (Not by numpy: Arrow imports pandas for a first array.)
        _same("a sum", known.sum, pc.sum(array).as_py() or 0)
    else:
        _check_ends(array, known)


def _has_ends(known: Any) -> bool:
    return bool(known.HasField("minimum") and known.HasField("maximum"))


def _check_ends(
    array: pa.Array, known: Any, *, convert: Callable[[Any], object] = lambda value: value
) -> None:
    """The least and greatest values are those of the statistics, where these tell them."""
    if not _has_ends(known):
        return
    low, high = convert(known.minimum), convert(known.maximum)
    if array.null_count == len(array):
        return
    found = pc.min_max(array).as_py()
    _same("a least value", low, found["min"])
    _same("a greatest value", high, found["max"])


def _check_words(array: pa.Array, known: Any) -> None:
    """The ends of decimals, by the low words of their numbers: Arrow compares decimals one by one,
    which takes a fifth of the time of decoding them.
    """
    words, _ = words_of(array)
    unit = Decimal(1).scaleb(-array.type.scale)
    _same("a least value", _decimal(known.minimum), int(words.min()) * unit)
    _same("a greatest value", _decimal(known.maximum), int(words.max()) * unit)


def _text_bytes(array: pa.Array) -> int:
    if array.null_count or not pa.types.is_string(array.type):
        return pc.sum(pc.binary_length(array)).as_py() or 0
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return int(offsets[array.offset + len(array)]) - int(offsets[array.offset])


def _check_floats(array: pa.Array, known: Any) -> None:
    """By numpy where none is NULL: Arrow compares floats one by one."""
    if not known.minimum <= known.maximum:
        return
    try:
        if array.null_count or not len(array):
            _check_ends(array.cast(pa.float64()), known)
        elif _has_ends(known):
            kind = np.float64 if pa.types.is_float64(array.type) else np.float32
            values = np.frombuffer(array.buffers()[1], dtype=kind)[array.offset :][: len(array)]
            with np.errstate(invalid="ignore"):
                ends = float(values.min()), float(values.max())
            _same("a least value", known.minimum, ends[0])
            _same("a greatest value", known.maximum, ends[1])
    except FormatError:  # writers differ in the least and greatest value of columns with NaN
        if not pc.any(pc.is_nan(array)).as_py():
            raise


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except (InvalidOperation, TypeError) as error:
        raise damage("statistics that are decimals", repr(text)) from error


def _same(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise damage(f"{what} of {expected}", str(found))


def damage(expected: str, found: str) -> FormatError:
    """A file that has something else in the place of what is expected."""
    return FormatError(f"expected {expected}, found {found}", expected=expected, found=found)


def check_columns(
    columns: Mapping[int, pa.Array], statistics: Sequence[Any], kinds: Sequence[int]
) -> None:
    """Each column (by its number) of a stripe against the stripe's statistics.

    Raises:
        FormatError: one differs; context ``expected`` and ``found``.
    """
    if len(statistics) != len(kinds):
        raise damage(f"statistics of {len(kinds)} columns", f"{len(statistics)}")
    for number, array in columns.items():
        _check_kind(statistics[number], kind=kinds[number])
        check_column(array, statistics[number], kind=kinds[number])
