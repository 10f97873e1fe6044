"""Tables: plan and read fragments, stage and commit partitions.

references  TableRef: the address of a table
table       the interfaces Table, Plan, Fragment, Sink
open        open a table or a sink by path, URI or object
selection   the rows of a table that a caller asked for
filters     partition and row filters as Arrow expressions
memory      tables, frames and readers in memory
filesystem  paths and URIs as file systems
retry       retries of transient failures of a store
footers     footers of Parquet files
built_in    registers the formats below
inspection  what a table contains, from its footers
cleaning    removes files that killed writers left
parquet/ delta/ iceberg/   one package per format
commit/     what commits of all formats share
"""
