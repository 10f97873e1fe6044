"""The demonstration behind ``make demo``: both DAGs on real months, in a real Airflow.

It stands beside the DAGs it runs, outside both packages: it is a user of probclass and of Airflow,
not a part of either, and a DAG or plugin folder would be no place for a program.

Reading map:
    __main__: the demonstration as a story.
    local_airflow: an Airflow of its own, started, asked for backfills, and taken down again.
    summary: what came of it, as a table and a picture.
"""
