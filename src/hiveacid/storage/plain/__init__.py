"""Parquet and text files, and directories of tables without row ids.

Start with ``readers`` and ``writers``.
"""
