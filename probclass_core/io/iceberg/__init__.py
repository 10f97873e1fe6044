"""Iceberg tables.

table      read a snapshot
files      read the data files of a scan
sink       replace a partition or append to it by one snapshot
leftovers  data files that killed writers left
"""
