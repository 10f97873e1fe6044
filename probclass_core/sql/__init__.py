"""Scoring where the table is: a model as one SQL query.

query     from a model to the SELECT that gives the scored table
render    formulas as SQL expressions
dialects  how each engine writes names, numbers and functions
"""
