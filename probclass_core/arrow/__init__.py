"""From Arrow to NumPy and back; the only package that converts one to the other.

types          types of columns: what their values are, and which types Arrow can work with
arrays         columns as NumPy arrays: chunks, nulls, NaN, infinities, dictionaries
sparse_counts  columns of words and other counted items as sparse counts
row_blocks     batches of numbers in blocks that fit the processor's cache
bundle         Arrow tables and a manifest as checksummed files
"""
