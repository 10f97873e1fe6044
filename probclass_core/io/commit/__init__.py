"""What commits of all formats share.

parquet_writer  write Parquet files
swap            replace a directory in one step
log_sink        a partition of a table with a log
agreement       whether rows fit the columns of a table
portable_types  types that every format can store
"""
