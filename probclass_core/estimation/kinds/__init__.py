"""Kinds of sufficient statistics; each merges, is a table, and checks itself.

kind           what they have in common, and what a database computes
class_counts   rows of each class
profile        rows, nulls and range of each column
moments        count, mean and scatter of terms of single columns
joint_moments  count, mean and scatter of all pairs of columns
grids          counts of the numbers of single columns, and of their nulls; with cells of others
cells          counts of values of columns, and of their combinations
count_sums     sums of counts of columns or of the terms of a text
points         the distinct rows of columns of numbers, all of them or a sample
sample         a sample of all columns: the rows with the smallest hashes
"""
