"""Model specs out of data: which columns a model has, in which blocks.

In reading order, each step from what those before it say:

auto        derives a spec from a table, for `ModelSpec.auto`; start reading here
columns     roles of columns: numbers, categories, terms, and which are left out
dates       parts of dates and times, such as the hour and the weekday
numbers     text that is numbers but for markers of missing values
profile     what one reading tells of a table: roles, statistics, a sample of its rows
levels      columns of rows as levels, and what they tell of the class
pairs       pairs of columns that depend on each other within the classes
fine_pairs  pairs of numbers in finer bins than each of them has alone
groups      groups of columns that predict the class only together
candidates  the blocks to choose from: columns, pairs, groups, all numbers
choice      the fewest candidates that predict as well as all, or the blocks of an earlier spec
network     the blocks of log p(x): each column given the one that it depends on most
unlabeled   the blocks of a table without a label
names       names of blocks
notes       what was decided, as sentences
"""
