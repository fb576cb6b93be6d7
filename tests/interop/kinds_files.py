"""Tables of files without row events: insert-only ones, converted ones, files that were loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as parquet
from tests.interop.kinds import Kind, Mode, Workplace

from hiveacid.model.tables import TableName

FORMATS = ("orc", "parquet", "textfile")
_TO_ACID = "alter table {t} set tblproperties ('transactional'='true')"
_TO_INSERT_ONLY = (
    "alter table {t} set tblproperties"
    " ('transactional'='true', 'transactional_properties'='insert_only')"
)

_COLUMNS = (
    "id int, v string, x decimal(10,2), d date, ts timestamp, b boolean, f double, bin binary,"
    " c char(5), vc varchar(9), a array<int>, m map<string,int>, s struct<p:int,q:string>"
)
_SHOWN = "id, v, x, d, ts, b, f, hex(bin) as bin, c, vc, a, m, s"
_ROW = (
    " cast(1.25 as decimal(10,2)), date'1960-01-02', timestamp'1960-01-02 03:04:05.678901', true,"
    " 0.5D, cast('bytes' as binary), cast('ch' as char(5)), cast('vc' as varchar(9)),"
    " array(1, 2), map('k', 1), named_struct('p', 1, 'q', 'r')"
)


def load(
    columns: Mapping[str, Any], *, tail: str = "", overwrite: bool = False, format: str = "orc"
) -> Callable[[Workplace], None]:
    """A LOAD DATA of one file with these columns."""

    def step(place: Workplace) -> None:
        number = len(list(place.scratch.iterdir()))
        path = place.scratch / f"{number}.{format}"
        _write_file(pa.table(dict(columns)), path, format)
        into = "overwrite into" if overwrite else "into"
        place.acid.sql(f"load data local inpath '{path}' {into} table {place.table} {tail}")

    return step


def _write_file(rows: pa.Table, path: Path, format: str) -> None:
    if format == "orc":
        orc.write_table(rows, str(path))
    elif format == "parquet":
        parquet.write_table(rows, str(path))
    else:
        lines = ("\x01".join(map(str, row.values())) for row in rows.to_pylist())
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def nest(name: str, folder: str) -> Callable[[Workplace], None]:
    """Move a file below the table's directory, as Hive's UNION ALL leaves them."""

    def step(place: Workplace) -> None:
        table = place.acid.client.metastore.get_table(TableName("default", place.table))
        root = Path(table.location)
        (root / folder).mkdir()
        (root / name).rename(root / folder / "000000_0")

    return step


def _rows(*ids: int) -> dict[str, Any]:
    return {"id": pa.array(ids, pa.int32()), "v": [f"loaded {i}" for i in ids]}


def _of_format(format: str) -> tuple[Kind, Kind, Kind]:
    # Hive's vectorised reader takes a NULL map in Parquet for {}, and its compactor fails on it
    no_map = "map('none', 0)" if format == "parquet" else "null"
    return (
        Kind(
            f"only_{format}",
            _COLUMNS,
            (
                f"insert into {{t}} select 1, 'a',{_ROW}",
                f"insert into {{t}} select 2, null, null, null, null, null, null, null, null, null,"
                f" null, {no_map}, null",
                f"insert into {{t}} select id + 10, concat('é ', id),{_ROW} from numbers"
                " where id < 40",
            ),
            (f"insert into {{t}} select 900, 'hive',{_ROW}",),
            stored_as=format,
            mode=Mode.INSERT_ONLY,
            shown=_SHOWN,
            ci=True,
            hive_3=format != "parquet",
        ),
        _with_partitions(format),
        Kind(
            f"only_{format}_loaded",
            "id int, v string",
            (
                "insert into {t} values (1, 'gone')",
                load(_rows(2, 3), overwrite=True, format=format),
                load(_rows(4), format=format),
                "insert into {t} values (5, 'inserted')",
            ),
            ("insert into {t} values (900, 'hive')",),
            stored_as=format,
            mode=Mode.INSERT_ONLY,
            hive_3=format != "parquet",
        ),
    )


def _with_partitions(format: str) -> Kind:
    # Hive's compactor refuses sorted tables
    in_order = format == "parquet"
    return Kind(
        f"only_{format}_parts",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id), if(id % 2 = 0, 'x', 'y/z'), id % 3"
            " from numbers where id < 60",
            "insert into {t} values (100, null, null, null), (101, 'e', 'x', 1)",
            "insert into {t} partition (p='x', n=1) values (102, 'static')",
            "insert overwrite table {t} partition (p='x', n=2) values (103, 'over')",
            "insert overwrite table {t} partition (p, n) select id, 'dynamic', 'y/z', 0"
            " from numbers where id < 7",
            "insert overwrite table {t} partition (p='x', n=0) select id, 'none'"
            " from numbers where id < 0",
            "insert into {t} values (104, 'after', 'x', 2)",
        ),
        (
            "insert into {t} values (901, 'hive', 'x', 1), (902, 'hive', 'new', 5)",
            "insert overwrite table {t} partition (p='y/z', n=1) values (903, 'hive')",
        ),
        partitioned_by="p string, n int",
        clustered_by=f"(id){' sorted by (id)' if in_order else ''} into 2",
        stored_as=format,
        mode=Mode.INSERT_ONLY,
        compact=() if in_order else ("p='x', n=1", "p='x', n=2"),
        ci=format == "orc",
        hive_3=format != "parquet",
    )


_CONVERTED_DML = (
    "update {t} set v = 'u' where id in (3, 20)",
    "delete from {t} where id in (2, 21)",
    "insert into {t} select id + 500, 'later' from numbers where id < 5",
)
_CONVERTED_HIVE = (
    "update {t} set v = 'hive' where id in (3, 22, 501)",
    "delete from {t} where id in (5, 23)",
)

FILES = (
    *(kind for format in FORMATS for kind in _of_format(format)),
    Kind(
        "converted",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id) from numbers where id < 10",
            "insert into {t} select id + 20, concat('s', id) from numbers where id < 10",
            "insert into {t} select id + 40, concat('n', id) from numbers where id < 10",
            nest("000000_0_copy_2", "HIVE_UNION_SUBDIR_1"),
            _TO_ACID,
            *_CONVERTED_DML,
        ),
        _CONVERTED_HIVE,
        mode=Mode.PLAIN,
        ci=True,
    ),
    Kind(
        "converted_untouched",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id) from numbers where id < 10",
            "insert into {t} select id + 20, concat('s', id) from numbers where id < 10",
            _TO_ACID,
        ),
        _CONVERTED_HIVE,
        mode=Mode.PLAIN,
        hive_3=False,
    ),
    Kind(
        "converted_buckets",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id) from numbers where id < 10",
            "insert into {t} select id + 20, concat('s', id) from numbers where id < 10",
            _TO_ACID,
            *_CONVERTED_DML,
        ),
        _CONVERTED_HIVE,
        clustered_by="(id) into 3",
        mode=Mode.PLAIN,
        ci=True,
    ),
    Kind(
        "converted_parts",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id), id % 2 from numbers where id < 10",
            "insert into {t} select id + 20, concat('s', id), id % 2 from numbers where id < 10",
            _TO_ACID,
            "update {t} set v = 'u' where id in (3, 20)",
            "delete from {t} where id in (2, 21)",
            "insert into {t} select id + 500, 'later', 1 from numbers where id < 5",
        ),
        _CONVERTED_HIVE,
        partitioned_by="p int",
        mode=Mode.PLAIN,
        compact=("p=0", "p=1"),
    ),
    Kind(
        "converted_only",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id) from numbers where id < 10",
            "insert into {t} values (20, 'second')",
            _TO_INSERT_ONLY,
            "insert into {t} values (21, 'third')",
        ),
        ("insert into {t} values (900, 'hive')",),
        stored_as="textfile",
        mode=Mode.PLAIN,
    ),
    Kind(
        "loaded",
        "id int, v string",
        (
            "insert into {t} values (1, 'gone')",
            load(_rows(*range(2, 40)), overwrite=True),
            load(_rows(50, 51, 52)),
            "update {t} set v = 'u' where id in (3, 50)",
            "delete from {t} where id in (2, 51)",
            load(_rows(60, 61)),
        ),
        ("update {t} set v = 'hive' where id in (4, 60)", "delete from {t} where id in (3, 52)"),
        ci=True,
    ),
    Kind(
        "loaded_parts",
        "id int, v string",
        (
            load(_rows(1, 2, 3), tail="partition (p='a b')"),
            load(_rows(4, 5), tail="partition (p='c')"),
            load(_rows(6, 7), tail="partition (p='c')", overwrite=True),
            load(_rows(8), tail="partition (p='c')"),
            "update {t} set v = 'u' where id in (1, 8)",
        ),
        ("update {t} set v = 'hive' where id in (2, 6)", "delete from {t} where id in (1, 7)"),
        partitioned_by="p string",
        compact=("p='a b'", "p='c'"),
    ),
)
