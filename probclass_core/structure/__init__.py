"""Model specs out of data: which columns a model has, in which blocks.

auto        derives a spec from a table, for `ModelSpec.auto`; start reading here
columns     roles of columns: numbers, categories, terms, and which are left out
dates       parts of dates and times, such as the hour and the weekday
numbers     text that is numbers but for markers of missing values
levels      columns of rows as levels
pairs       pairs of columns that depend on each other within the classes
fine_pairs  pairs of numbers in finer bins than each of them has alone
network     the tree of columns that log p(x) is made of
groups      groups of columns that predict the class only together
"""
