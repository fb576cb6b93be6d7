"""Compaction: what is worth compacting, the queue's workers, the rewrites, the cleaner.

Row ids stay (rebalance apart), so it conflicts with nobody. Statements never come in: they put
requests into the queue. Read ``worker.py`` first.
"""
