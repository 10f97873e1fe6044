"""Delta Lake tables.

table      a version, read
sink       a partition, replaced or appended to by one entry of the log
leftovers  files that killed writers left
"""
