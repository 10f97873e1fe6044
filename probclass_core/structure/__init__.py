"""Model specs out of data: which columns a model has, in which blocks.

auto     `auto_spec`: the spec that `ModelSpec.auto` returns; start reading here
columns  roles of columns: numbers, categories, terms, and which are left out
pairs    pairs of columns that depend on each other within the classes
"""
