"""What each Python process begins with that a test, or its Spark, starts.

Spark puts PySpark's zip first in the path: a process would compile what it takes from there, and
read its directory anew twenty times. Where PySpark is installed, it is taken from there.
"""

from __future__ import annotations

import os
import sys

_rest = [entry for entry in sys.path if not entry.endswith(".zip")]
if any(os.path.isdir(os.path.join(entry, "pyspark")) for entry in _rest):
    sys.path[:] = _rest
