"""From partitions to scored partitions.

batch      score a record batch
plan       plan the partitions, compare them with what was committed before
partition  score the parts of partitions, commit each partition at once
checks     check partitions before their commits, against earlier ones
reports    what became of the partitions, and the error if some of them failed
commits    list the commits of a scored table
"""
