"""Differences between two models, computed from their parameters; no rows are read.

report         drift: compare two models class by class and feature by feature
distributions  the distribution of each column in each class
divergence     Jensen-Shannon divergence in bits
"""
