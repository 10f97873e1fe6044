"""Counts: presence, shares of a total, and events.

bernoulli    presence or absence of each item
multinomial  counts that share a total, such as the words of a text
poisson      independent counts of events
base         what the three share: options, columns, statistics and tables
likelihood   what their likelihoods share
"""
