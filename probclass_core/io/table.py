"""The contract of a source of rows. Read this first if you write one.

A source plans the units that answer a query, and a unit reads its rows. Everything that reads a
table (training, scoring, evaluation, plots) is nothing else than these two calls::

    plan   columns, partition, filter -> units in a fixed order, with a digest of their rows
    read   unit                       -> record batches

A class of a source derives from `Source` and has a `schema` and the method `plan`. Rows in memory
need no class of their own: return ``pc.open_table(rows)``. What a source cannot do has a default:
it has no partitions, no Parquet files to inspect, and no footers to cache.

How rows are written is in `io.sink`.
"""

from __future__ import annotations
