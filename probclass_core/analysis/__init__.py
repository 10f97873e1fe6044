"""What a fitted model says about rows, and about other models.

evaluation   accuracy, log loss, Brier score and confusion on labeled rows
reliability  whether predicted probabilities match observed frequencies
explanation  contributions of each block to the log odds of a row
ledger       an explanation as aligned text
comparison   log evidence and Bayes factors of several models
drift/       differences between two models, from their parameters alone
bayes_rule   Bayes' rule on plain tables
"""
