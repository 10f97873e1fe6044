"""The cases, one file per family; each ends with the tuple ``CASES`` of what it defines.

train_gaussian     diagonal and full normals from Parquet
train_categorical  text columns from Parquet
retrain            a window of days after one new day, with kept statistics
engines            training by threads, by processes and by Spark
score              Parquet in, posteriors in Parquet out
memory             peak memory as rows grow
knn                nearest neighbors, from low dimension to high
small              one small batch in memory
importing          the import alone
parsing            the example DAGs, parsed
"""
