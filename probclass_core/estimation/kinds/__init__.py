"""Kinds of sufficient statistics; each merges, is a table, and checks itself.

moments     count, mean and scatter of terms of single columns
histogram   counts of the values of single columns on a grid
grids       counts of numbers and of nulls, of columns that are to be cut into bins
cells       counts of values of columns, and of their combinations
"""
