"""Tables that we compacted: stripes copied, files decoded and written anew, files copied."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.kinds import Kind, Mode, Workplace

_FILL = "insert into {{t}} select id + {0}, concat('r', id), id % 3 from numbers where id < {1}"
_ROUNDS = tuple(_FILL.format(first, 700) for first in range(0, 4000, 1000))
_DML = (
    "delete from {t} where id % 1000 between 10 and 30",
    "update {t} set v = upper(v) where id in (5, 1005, 3699)",
)
_HIVE_TURN = (
    "update {t} set v = 'hive' where id in (6, 1006, 5000)",
    "delete from {t} where id in (3699, 5001) or id between 2100 and 2110",
)


def _compact(sql: str) -> Callable[[Workplace], None]:
    """A step that compacts and copies stripes wherever it can."""

    def step(place: Workplace) -> None:
        place.acid.sql("set hiveacid.compactor.stripe_bytes=0")
        place.acid.sql(sql.format(t=place.table))

    return step


COMPACTED = (
    Kind(
        "compacted",
        "id int, v string, n int",
        (
            *_ROUNDS,
            *_DML,
            _compact("alter table {t} compact 'minor' and wait"),
            "insert into {t} values (5000, 'later', 1), (5001, null, null)",
            "delete from {t} where id = 7",
        ),
        _HIVE_TURN,
        hive_3=False,
    ),
    Kind(
        "compacted_major",
        "id int, v string, n int, d decimal(9,2), c char(4), t timestamp",
        (
            "insert into {t} select id, concat('r', id), id % 3, id / 4, 'x',"
            " timestamp'2020-01-01 00:00:00.123456' from numbers where id < 2500",
            *_DML,
            _compact("alter table {t} compact 'major' and wait"),
            "insert into {t} (id, v) values (5000, 'later'), (5001, null)",
            "delete from {t} where id = 7",
        ),
        _HIVE_TURN,
        clustered_by="(id) into 3",
        hive_3=False,
    ),
    Kind(
        "compacted_converted",
        "id int, v string, n int",
        (
            *_ROUNDS[:2],
            "alter table {t} set tblproperties ('transactional'='true')",
            _compact("alter table {t} compact 'major' and wait"),
            *_DML,
            "insert into {t} values (5000, 'later', 1), (5001, null, null)",
        ),
        ("update {t} set v = 'hive' where id in (6, 1006, 5000)", "delete from {t} where id < 4"),
        mode=Mode.PLAIN,
        hive_3=False,
    ),
    Kind(
        "compacted_insert_only",
        "id int, v string, n int",
        (*_ROUNDS, _compact("alter table {t} compact 'minor' and wait"), _ROUNDS[0]),
        ("insert into {t} values (5000, 'hive', 1)",),
        mode=Mode.INSERT_ONLY,
        stored_as="parquet",
        hive_3=False,
    ),
)
