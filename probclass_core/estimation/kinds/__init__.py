"""Kinds of sufficient statistics; each merges, is a table, and checks itself.

moments   count, mean and scatter of terms of single columns
grids     counts of the numbers of single columns, and of their nulls
cells     counts of values of columns, and of their combinations
"""
