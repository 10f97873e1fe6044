"""What a fitted model says about rows, and how it compares with other models.

evaluation   accuracy, log loss, Brier score and confusion on labeled rows
paired       two models on the same rows: the gain, and its standard error
reliability  whether predicted probabilities match observed frequencies
explanation  contributions of each block to the log odds of a row
surprise     which columns make a row unusual
importance   what each column contributes to predictions on average
comparison   log evidence and Bayes factors of several models
distributions/  differences between two models, and of scored partitions from the training
bayes_rule   Bayes' rule on plain tables
batches      sums over the batches of a plan, measured on an engine
row_moments  moments of a few numbers of each row
json_values  results as plain JSON values
"""
