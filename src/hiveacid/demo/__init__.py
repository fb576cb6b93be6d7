"""The demonstration, ``hiveacid demo``: the main job on real data, from one command.

What lives here: ``tpch`` (orders and lineitem, a change set; the same computed by DuckDB, compared
value by value), ``program`` (what is done, on the public handles alone), ``meter`` (seconds, rows,
files, peak memory; the locks that are held). What never comes in: anything the public handles
cannot do. Read ``program.py`` first.
"""

from __future__ import annotations

from pathlib import Path

from hiveacid.errors import MissingExtraError


def run(*, scale: float, directory: Path, stream_s: float = 0) -> bool:
    """Run all steps and print what happens; whether the tables equal what DuckDB computed.

    ``scale`` is the TPC-H scale factor (1: 6 million lineitem rows). With ``stream_s`` the changes
    and the lines are streamed besides, for so many seconds. Input, warehouse and metastore
    go below ``directory``; what a former demo left there is replaced, the input is kept.

    Raises:
        InvalidInputError: the directory holds something else.
        MissingExtraError: a package of the demo's is not installed.
    """
    try:
        from hiveacid.demo import program
    except ImportError as error:
        raise MissingExtraError(
            f"The demo needs {error.name}, which is not installed",
            note="pip install 'hiveacid[demo]'",
        ) from error

    return program.run(scale=scale, directory=directory, stream_s=stream_s)
