"""Columns given other columns: p(columns | given, class), for blocks with ``given``.

counts  categories and bins: counts of combinations
chain   back-off from one given column to the next
joint   from the joint distribution of both, divided by that of the given columns
"""
