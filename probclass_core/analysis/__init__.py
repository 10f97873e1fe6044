"""What a fitted model says about rows, and how it compares with other models.

evaluation     accuracy, log loss, Brier score, confusion and calibration on labeled rows
paired         two models on the same rows: the gain, and its standard error
explanation    contributions of each block to the log odds of a row; which columns make it unusual
importance     what each column contributes to predictions on average
comparison     log evidence and Bayes factors of several models
distributions/ differences between two models, and of scored partitions from the training
bayes_rule     Bayes' rule on plain tables
batches        sums over the batches of a plan, and moments of a few numbers of each row
"""
