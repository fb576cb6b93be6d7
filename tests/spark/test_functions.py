"""Functions that Spark lacks or answers otherwise: Hive's answers."""

from __future__ import annotations

ACID = "stored as orc tblproperties ('transactional'='true')"

ANSWERS = {
    "size(cast(null as array<int>))": -1,
    "size(array(1, 2))": 2,
    "istrue(cast(null as boolean))": False,
    "isnottrue(cast(null as boolean))": True,
    "isfalse(1 > 2)": True,
    "isnotfalse(cast(null as boolean))": True,
    "mid('abcdef', 2, 3)": "bcd",
    "is_not_distinct_from(null, null)": True,
    "cast(floor_month(timestamp'2020-05-17 10:11:12') as string)": "2020-05-01 00:00:00",
    "mask_hash('a')": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "base64(aes_encrypt('ABC', '1234567890123456'))": "y6Ss+zCYObpCbgfWfyNWTw==",
    "cast(aes_decrypt(unbase64('y6Ss+zCYObpCbgfWfyNWTw=='), '1234567890123456') as string)": "ABC",
}


def test_answers_are_hives(acid):
    found = acid.sql("select " + ", ".join(ANSWERS)).collect()[0]
    assert dict(zip(ANSWERS, found, strict=True)) == ANSWERS


def test_grouping_id_is_the_word_of_hive(acid, rows):
    acid.sql(f"create table t (a int, b int) {ACID}")
    acid.sql("insert into t values (1,1),(1,2)")
    found = rows("select a, b, grouping__id, count(*) from t group by a, b with rollup")
    assert found == [(1, 1, 0, 1), (1, 2, 0, 1), (1, None, 1, 2), (None, None, 3, 2)]
