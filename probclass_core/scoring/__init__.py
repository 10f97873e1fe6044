"""From partitions to scored partitions.

score      the verb: compare partitions with the sink, score those that differ; start reading here
options    what is written, checked and allowed
batch      score a record batch
selection  which partitions of the source and the sink are considered
plan       plan a partition: its rows, its commit, what changed since the commit before
partition  score the parts of partitions, commit each partition at once
checks     check partitions before their commits, against earlier ones
reports    what became of the partitions, and the error if some of them failed
recording  record in the store what a version of it scored
commits    list the commits of a scored table
"""
