"""Tables: plan and read units, stage and commit partitions.

references   TableRef: the address of a table; patterns of file names
table        Source, Plan, Unit: the contract of a source of rows
sink         Sink and staged partitions: the contract of a sink
open         open a table or a sink by path, URI or object; registers the formats below
filters      partition and row filters as Arrow expressions
selection    the rows of a table that a caller asked for, their labels, and columns that files lack
memory       tables and frames in memory, readers, and datasets of pyarrow
filesystem   Location: files read and written atomically, on disks and by fsspec; FileVersion
object_stores  open a Location; files on object stores, replaced only as they were seen
storage_options  names of the options of object stores in each library
local_files  durable changes of a local disk, staged and put in place
failures     failures of file systems: retries, and errors of one line that name the location
inspection   what a table contains, from its footers; remove what killed writers left
delta        Delta Lake tables: read a version, replace a partition or append to it
parquet/ iceberg/ text/   one package per format
commit/      what commits of all formats share
"""
