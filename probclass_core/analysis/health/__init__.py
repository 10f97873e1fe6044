"""Health of scored partitions: what they contained, compared with what the model was trained on.

report       `Health`, the record of one partition: start reading here
columns      what a model expects of each column
label_shift  shares of the classes without labels, and the accuracy that follows
sums         gathers all of it batch by batch, while rows are scored
watch        `Watch`: thresholds, what to do, and verdicts in sentences
seasons      earlier partitions to compare with: the last, and the same season a year before
bin_counts   counts of a column in two partitions
"""
