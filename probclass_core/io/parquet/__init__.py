"""Parquet files and Hive-partitioned directories.

discovery       find the files of a table by path or URI
dataset         plan and read a pyarrow dataset of Parquet files
pieces          what the paths of files say
planned_file    what a plan needs to know of a file
row_groups      read some row groups of a file
digests         digests of fragments
hive            directory names with values of partition columns
manifests       lists of the files of a partition on an object store
directory_sink  a partition on a local disk, committed by a rename
object_sink     a partition on an object store, committed by one PUT
"""
