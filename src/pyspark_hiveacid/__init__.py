"""Spark looks for data sources in packages whose names begin with ``pyspark_``: this is hiveacid's.

Spark imports it in each application that asks for any Python data source: so it imports nothing but
the class, whose methods import what they need.
"""

from hiveacid.connectors.data_source import HiveAcidDataSource as DefaultSource

__all__ = ["DefaultSource"]
