"""Benchmarks: ``benchmarks.run`` against flat ORC, ``benchmarks.peers`` beside other table formats.

Workloads are data (``workloads.py``), what they measure is in ``stages.py``, and every one checks
its result. Not part of the package.
"""
