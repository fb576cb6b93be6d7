"""Tables that were taken back, by RESTORE, UNDO TRANSACTION or PURGE."""

from __future__ import annotations

from tests.interop.kinds import Kind, Mode, Workplace

_ROWS = "insert into {t} select id, concat('row ', id), id % 3 from numbers where id < 60"
_CHANGES = (
    "update {t} set v = 'wrong' where id % 2 = 0",
    "delete from {t} where id > 40",
)
_HIVE_TURN = (
    "update {t} set v = 'hive' where id in (2, 20)",
    "delete from {t} where id in (5, 41)",
)


def _undo_the_last(place: Workplace) -> None:
    last = place.acid.table(place.table).history(limit=1)[0]
    place.acid.undo(int(last.txn))


PAST = (
    Kind(
        "restored",
        "id int, v string",
        (
            _ROWS,
            *_CHANGES,
            "alter table {t} add columns (note string)",
            "insert into {t} partition (p=1) values (100, 'late', 'm')",
            "restore table {t} to version as of 1",
            "update {t} set note = 'after' where id = 7",
        ),
        _HIVE_TURN,
        partitioned_by="p int",
        compact=("p=1", "p=2"),
        ci=True,
    ),
    Kind(
        "restored_buckets",
        "id int, v string, p int",
        (
            _ROWS,
            *_CHANGES,
            "restore table {t} to timestamp as of now()",
            "restore table {t} to version as of 1",
        ),
        _HIVE_TURN,
        clustered_by="(id) into 3",
    ),
    Kind(
        "restored_insert_only",
        "id int, v string, p int",
        (_ROWS, "insert into {t} values (100, 'late', 1)", "restore table {t} to version as of 1"),
        ("insert into {t} values (200, 'hive', 1)",),
        mode=Mode.INSERT_ONLY,
    ),
    Kind("undone", "id int, v string, p int", (_ROWS, *_CHANGES, _undo_the_last), _HIVE_TURN),
    Kind(
        "purged",
        "id int, v string, p int",
        (
            _ROWS,
            *_CHANGES,
            "purge table {t} where id in (3, 4)",
            "insert into {t} values (3, 'x', 0)",
        ),
        _HIVE_TURN,
        clustered_by="(id) into 2",
    ),
)
