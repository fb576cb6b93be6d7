"""The daemon whose children are Spark's Python workers, with what they need imported before."""

from __future__ import annotations

if __name__ == "__main__":
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    manager()
