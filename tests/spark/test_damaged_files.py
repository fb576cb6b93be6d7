"""Damaged files under Spark: rows that are right, or an error; the JVM lives on.

Spark's vectorised reader does not hold data against statistics, so a flip among the values may
give other values; footers are looked at by us before Spark opens the file.
"""

from __future__ import annotations

import random

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.sampling import sampled

from hiveacid.errors import FormatError
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.tail import read_tail

CASES = 40
ACID = "stored as orc tblproperties ('transactional'='true', 'orc.compress'='{}')"


def structure(path):
    """The places that hold no values: stripe footers and the tail."""
    fs, name = Files().at(str(path))
    tail = read_tail(fs, name)
    size = path.stat().st_size
    found = [(size - tail.tail_bytes, size)]
    for stripe in tail.footer.stripes:
        at = stripe.offset + stripe.indexLength + stripe.dataLength
        found.append((at, at + stripe.footerLength))
    return found


def damaged(data, at, chance):
    copy = bytearray(data)
    what = chance.random()
    if what < 0.7:
        copy[at] ^= 1 << chance.randrange(8)
    elif what < 0.85:
        del copy[at:]
    else:
        del copy[at : at + chance.randrange(1, 9)]
    return bytes(copy)


@pytest.mark.long("spark", "storage")
@pytest.mark.parametrize("compress", sampled(["ZLIB", "NONE"], "spark", "storage", group=type))
def test_damaged_copies_never_kill_the_jvm(acid, rows, tmp_path, compress):
    acid.sql(f"create table t (id int, name string, x double) {ACID.format(compress)}")
    acid.sql("insert into t values " + ", ".join(f"({i}, 'name {i}', {i}.5)" for i in range(50)))
    acid.sql("delete from t where id % 7 = 3")
    query = "select id, name, x, row__id.rowid from t"
    expected = rows(query)
    files = sorted((tmp_path / "wh" / "t").glob("*/bucket_*"))
    assert len(files) == 2
    places = {path: structure(path) for path in files}
    chance = random.Random(7)
    told = 0
    for case in range(CASES // 2):
        path = chance.choice(files)
        whole = path.read_bytes()
        at = chance.randrange(len(whole))
        path.write_bytes(damaged(whole, at, chance))
        try:
            found = rows(query)
        except FormatError:
            told += 1
        except (PySparkException, Py4JError) as error:  # a query's DataFrame is Spark's own
            assert str(path) in str(error), f"case {case}, byte {at}"
            told += 1
        else:
            at_structure = any(start <= at < end for start, end in places[path])
            if at_structure:
                assert found == expected, (case, path.name, at, len(whole))
        path.write_bytes(whole)
    assert told > 5
    assert acid.spark.range(3).count() == 3
    assert rows(query) == expected
