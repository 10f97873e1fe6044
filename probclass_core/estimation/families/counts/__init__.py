"""Counts: presence, shares of a total, and events.

bernoulli    presence or absence of each item
multinomial  counts that share a total, such as the words of a text
poisson      independent counts
term_counts  columns, statistics and dense tables that the three share
"""
