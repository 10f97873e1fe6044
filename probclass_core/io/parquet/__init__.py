"""Parquet files and Hive-partitioned directories.

discovery       names of Hive folders; find the files of a table, and open them
dataset         plan the files of a pyarrow dataset
files           where files have the columns of a table, and how their row groups are read
units           which files and row groups are read, summarized and cached together
column_chunks   check what a footer says about its columns, before Arrow uses it
sink            write a partition or a file: on a local disk committed by a rename, on an object
                store by one PUT
"""
