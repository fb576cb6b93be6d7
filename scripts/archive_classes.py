"""Write the archive of classes that the JVMs of the tests begin with (its path is the argument).

Half of what a JVM with Spark costs to start is reading and checking the same 15,000 classes. The
archive has those of a session that has run statements; a JVM of another version leaves it alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext

import hiveacid
from hiveacid.spark.workers import local_session

STATEMENTS = (
    "create table t (id int, v string) partitioned by (k string) stored as orc"
    " tblproperties ('transactional'='true')",
    "insert into t select cast(id as int), concat('v', id), if(id < 3, 'a', 'b') from range(6)",
    "update t set v = 'x' where id = 1",
    "merge into t using (select 1 id) s on t.id = s.id when matched then update set v = 'y'"
    " when not matched then insert values (s.id, 'z', 'a')",
    "delete from t where id = 2 and rand() >= 0",
    "alter table t partition (k='a') compact 'major' and wait",
)


def main() -> None:
    """Run the statements, and wait for the JVM, which writes the archive when it ends."""
    archive = Path(sys.argv[1])
    new = archive.with_suffix(".new")
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    kept = [one for one in given.split() if "SharedArchiveFile" not in one]
    options = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", f'-XX:ArchiveClassesAtExit="{new}"')
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((*kept, *options))
    with tempfile.TemporaryDirectory() as where:
        conf = {"spark.master": "local[2]", "spark.sql.warehouse.dir": f"{where}/spark"}
        spark = local_session("hiveacid archive", conf=conf)
        settings = {"hiveacid.reads.local_bytes": "0", "hiveacid.compactor.spark_bytes": "0"}
        with hiveacid.connect(
            spark, f"sqlite:///{where}/m.db", warehouse=f"{where}/wh", settings=settings
        ) as acid:
            for statement in STATEMENTS:
                acid.sql(statement)
            acid.sql("select k, count(*), max(v) from t group by k order by k").collect()
        spark.stop()
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    new.rename(archive)


if __name__ == "__main__":
    main()
