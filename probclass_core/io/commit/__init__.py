"""What the commits of all formats share.

parquet    write Parquet files, with commit records in their footers; portable types, and whether
           rows fit the columns of a table, which may gain some
file_sink  FileSink: a table of one local file, staged and renamed
log_sink   write a partition of a table that has a log (Delta, Iceberg)
"""
