"""From partitions to scored partitions.

batch      score a batch
partition  plan, score and commit a partition
"""
