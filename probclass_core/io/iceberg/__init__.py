"""Iceberg tables.

table      a snapshot, read
files      the data files of a scan
sink       a partition, replaced or appended to by one snapshot
leftovers  files that killed writers left
"""
