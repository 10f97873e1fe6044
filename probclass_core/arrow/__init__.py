"""Conversion from Arrow to NumPy, and Arrow tables as files.

types          column types: what values mean, safe types, canonical types, common types
arrays         columns as NumPy arrays: chunks, nulls, NaN, infinities, dictionaries
compiled       the compiled loops of another distribution, if it is installed
rows           the rows of one batch as NumPy arrays, each column converted once; bins; hashes
parts          where batches become features; parts of dates and times such as the hour
unreadable     why Arrow cannot convert a data frame: the column, and how to fix it
sparse_counts  columns of counts, of words or of documents as sparse matrices
bundle         Arrow tables and a manifest as checksummed files
"""
