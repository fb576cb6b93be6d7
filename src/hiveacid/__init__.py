"""Apache Hive ACID tables for PySpark."""
