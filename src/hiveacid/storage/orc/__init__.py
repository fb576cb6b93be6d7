"""ORC files: tails, streams, the writer and the reader of bucket files.

Start with ``bucket_reader`` and ``bucket_writer``; ``tail`` holds what both rest on.
"""
