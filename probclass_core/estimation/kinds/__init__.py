"""Kinds of sufficient statistics; each merges, is a table, and checks itself.

kind        what they have in common, and what a database computes
summary     rows of each class; rows, nulls and range of each column
moments     count, mean and scatter of terms of single columns, and of all pairs of columns
grids       counts of the numbers of single columns, and of their nulls; with cells of others
cells       counts of values of columns, and of their combinations
count_sums  sums of counts of columns or of the terms of a text
sample      a sample of all columns, by hashes; the distinct points of columns of numbers
"""
