"""Kinds of sufficient statistics; each merges, is a table, and checks itself.

kind           what they have in common
class_counts   rows of each class
profile        rows, nulls and range of each column
moments        count, mean and scatter of terms of single columns
joint_moments  count, mean and scatter of all pairs of columns
grids          counts of the numbers of single columns, and of their nulls
cells          counts of values of columns, and of their combinations
count_sums     sums of counts of columns or of the terms of a text
column_counts  cells of some columns, and grids of numbers whose cuts are not known yet
points         the distinct rows of columns of numbers, all of them or a sample
sample         a sample of all columns: the rows with the smallest hashes
"""
