"""The daemon whose children are Spark's Python workers, with what they need imported before.

Its parent puts PySpark's zip first in the path: a worker would compile what it takes from there,
and read its directory anew twenty times.
"""

from __future__ import annotations

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip")]

if __name__ == "__main__":
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    manager()
