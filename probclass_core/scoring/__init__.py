"""From partitions to scored partitions.

score      the verb: compare partitions with the sink, score those that differ, record in the store
           what was scored; start reading here
options    what is written, checked and allowed
batch      score a record batch
selection  which partitions of the source and the sink are considered; the commits of a sink
plan       plan a partition: its rows, its commit, what changed since the commit before
partition  score the rows of partitions, check them against earlier ones, commit each at once
reports    what became of the partitions, and the error if some of them failed
"""
