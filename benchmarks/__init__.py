"""Benchmarks: ``benchmarks.run`` against flat ORC and the peers, ``benchmarks.growth`` by size.

Workloads and goals are data, and every result is checked. Not part of the package.
"""
