"""Iceberg tables.

table      read a snapshot; leftovers of killed writers
sink       replace a partition or append to it by one snapshot
"""
