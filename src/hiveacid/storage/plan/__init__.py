"""Which partitions, files and stripes can hold what is asked for. Start with ``planning``."""
