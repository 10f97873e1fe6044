"""What the commits of all formats share.

schemas         portable types, and whether rows fit the columns of a table, which may gain some
parquet_writer  write Parquet files, with commit records in their footers
file_sink       FileSink: a table of one local file, staged and renamed
log_sink        write a partition of a table that has a log (Delta, Iceberg)
"""
