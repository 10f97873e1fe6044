"""Delta Lake tables.

table       read a version; leftovers of killed writers
sink        replace a partition or append to it by one entry of the log
"""
