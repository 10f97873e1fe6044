"""Training and evaluation, one function for each task; `scoring.score` is the third.

table → units → statistics → parameters → log-likelihoods → posterior → table

training          fit, summarize
cross_validation  every row evaluated by a model that did not see it
evaluation        evaluate, health, compare

Each module imports what its functions need, so a process that trains does not import scoring.
"""
