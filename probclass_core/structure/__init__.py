"""Model specs out of data: which columns a model has, in which blocks.

In reading order, each step from what those before it say:

auto        derives a spec from a table, for `ModelSpec.auto`; start reading here
columns     roles of columns: numbers, categories, terms, and which are left out
parts       parts of dates, such as the hour, and text that is numbers
profile     what one reading tells of a table: roles, statistics, a sample of its rows
levels      columns of rows as levels, and which of them depend on each other within the classes
fine_pairs  pairs of numbers in finer bins than each of them has alone
groups      groups of columns that predict the class only together
candidates  the blocks to choose from: columns, pairs, groups, all numbers
choice      the fewest candidates that predict as well as all, or the blocks of an earlier spec
density     the blocks of log p(x), and of a table without a label
"""
