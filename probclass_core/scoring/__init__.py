"""From partitions to scored partitions.

batch      score a record batch
plan       plan the partitions, compare them with what was committed before
partition  score the parts of partitions, commit each partition at once
checks     check partitions before their commits, against earlier ones
commits    list the commits of a scored table
"""
