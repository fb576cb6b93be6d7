"""Row events of one directory: which rows are left, and rewriting buckets for compactions.

Start with ``merge_read``, then ``sources``.
"""
