"""Counts: presence, shares of a total, and events.

estimators   bernoulli, multinomial, poisson
likelihood   their likelihoods
"""
