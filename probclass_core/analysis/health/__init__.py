"""Health of scored partitions: what they contained, compared with what the model was trained on.

report  `Health`, the record of one partition: start reading here
"""
