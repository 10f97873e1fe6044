"""Scoring and training where the table is.

query        from a model to the SELECT that gives the scored table
contributions  what each column contributes, in that query
render       formulas as SQL expressions
dialects     how each engine writes names, numbers and functions; parts of queries as text
scoring      a table scored in its database, a transaction for each partition
source       a table in a database as a source of rows, and of statistics
aggregation  sufficient statistics by GROUP BY
connections  open connections, and databases by URI
built_in     registers tables of databases as a table format
"""
