"""What the commits of all formats share.

schemas         portable types, and whether rows fit the columns of a table, which may gain some
records         commit records in the footers of data files
parquet_writer  write Parquet files
staging         folders in which rows are staged, and their leftovers
file_sink       FileSink: a table of one local file, staged and renamed
swap            replace a directory in one step
log_sink        write a partition of a table that has a log (Delta, Iceberg)
leftovers       report data files that no commit names
"""
