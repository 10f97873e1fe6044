"""Delta Lake tables.

table       read a version
sink        replace a partition or append to it by one entry of the log
statistics  minima, maxima and null counts of a file, as the log stores them
leftovers   files that killed writers left
"""
