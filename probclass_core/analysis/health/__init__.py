"""Health of scored partitions: what they contained, compared with what the model was trained on.

report       `Health`, the record of one partition: start reading here
columns      what a model expects of each column
label_shift  shares of the classes without labels, and the accuracy that follows
sums         gathers all of it batch by batch, while rows are scored
watch        `Watch`: which checks are made, from which value on, and what to do
unlabeled_checks  checks before the commit: against training and earlier partitions
label_checks      checks of an evaluation: against floors and the promotion
verdicts     `Verdict`: a check that was not passed, in a sentence
seasons      earlier partitions to compare with: the last, and the same season a year before
bin_counts   counts of a column in two partitions
"""
