"""The demonstration behind ``make demo``: both DAGs on real months, in a real Airflow.

It hands `dags/` and `plugins/` of a checkout, or of an installed Airflow, to an Airflow of its own.

Reading map:
    __main__: the demonstration as a story.
    local_airflow: an Airflow of its own, started, asked for backfills, and taken down again.
    summary: what came of it, as a table and a picture.
"""
