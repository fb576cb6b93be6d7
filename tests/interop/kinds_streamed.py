"""Tables that streams wrote: closed, still open, with rows given up, bucketed, partitioned."""

from __future__ import annotations

from functools import partial

from tests.interop.kinds import Kind, Mode, Workplace

from hiveacid.streaming import StreamingConnection

_OPEN: list[StreamingConnection] = []
"""Streams that stay open while Hive reads what they have committed."""


def _stream(place: Workplace, *, key: str, stays_open: bool) -> None:
    """Six transactions of batches of four; every third is given up."""
    stream = place.without_spark.stream(place.table, transactions_per_batch=4)
    for n in range(6):
        stream.begin()
        for i in range(10 * n, 10 * n + 7):
            row = {"id": i, "v": f"row {n}"}
            stream.write({**row, key: ("x", "y z")[i % 2]} if key else row)
        stream.abort() if n % 3 == 2 else stream.commit()
    if stays_open:
        stream.begin()
        stream.write({"id": 999, "v": "seen by nobody", **({key: "x"} if key else {})})
        _OPEN.append(stream)
    else:
        stream.close()


def _close() -> None:
    while _OPEN:
        _OPEN.pop().close()


_CLOSED = (partial(_stream, key="", stays_open=False),)
_LEFT_OPEN = (partial(_stream, key="", stays_open=True),)
_HIVE = ("update {t} set v = 'hive' where id in (2, 13)", "delete from {t} where id in (3, 14, 43)")

STREAMED = (
    Kind("stream", "id int, v string", _CLOSED, _HIVE),
    Kind("stream_open", "id int, v string", _LEFT_OPEN, _HIVE, exported=_close, ci=True),
    Kind(
        "stream_bucket",
        "id int, v string",
        _LEFT_OPEN,
        _HIVE,
        clustered_by="(id) into 3",
        exported=_close,
    ),
    Kind(
        "stream_part",
        "id int, v string",
        (partial(_stream, key="p", stays_open=True),),
        _HIVE,
        partitioned_by="p string",
        compact=("p='x'",),
        exported=_close,
    ),
    Kind(
        "stream_insert_only",
        "id int, v string",
        _LEFT_OPEN,
        ("insert into {t} values (5000, 'hive')",),
        mode=Mode.INSERT_ONLY,
        exported=_close,
    ),
)
