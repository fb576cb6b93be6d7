"""hiveacid as the runner of the SQL cases drives it: a COMPACT is carried out to its end there."""

from __future__ import annotations

from typing import Any

import run_cases

import hiveacid


class HiveAcid(run_cases.HiveAcid):  # type: ignore[misc]
    """The runner's own adapter, but COMPACT waits for its end, and what was replaced goes; nothing
    else is compacted.
    """

    def __init__(self, workdir: str) -> None:
        self.acid = hiveacid.connect(
            run_cases.spark_session(),
            f"sqlite:///{workdir}/metastore.db",
            warehouse=f"{workdir}/wh",
            settings={"hiveacid.compactor.auto": "off", "hiveacid.retention_s": "0"},
        )
        self.sql, self.close = self.acid.sql, self.acid.close

    def compact(self, table: str, partition: dict[str, str] | None, kind: str) -> Any:
        """COMPACT ... AND WAIT, then one round of the cleaner."""
        pairs = ", ".join(f"{key}='{value}'" for key, value in (partition or {}).items())
        spec = f" partition ({pairs})" if partition else ""
        answer = self.acid.sql(f"alter table {table}{spec} compact '{kind}' and wait")
        self.acid.clean(table)
        return answer
