"""The estimator contract, sufficient statistics, and the families of densities.

contract        the contract of a likelihood estimator and its laws: read this first
density         densities of single columns, of which an author writes one page: Density
column_density  what densities of single columns share, whatever their statistics
kinds/          kinds of sufficient statistics: each merges, is a table, and checks itself
options         typed options of estimators: declared, checked, described
formulas        log-likelihoods as arithmetic of columns, from which SQL is made
marginals       the distribution of one column in every class
tidy            tables with one row per class and cell: arrays, merges, notes, checks
moments         count, mean and scatter by class, and their merge
histogram       counts of a numeric column on a grid, and their merge
evidence        closed-form marginal likelihoods
statistics      sufficient statistics of a whole model: summarize, merge, further passes
families/       the built-in estimators
"""
