"""The program behind ``make demo``: the example DAGs over real months, in a local Airflow.

It runs the folders `dags/` and `plugins/` of a checkout or of an installed Airflow.

Reading map:
    __main__: the steps of the demo.
    local_airflow: a local Airflow, started, used for backfills, and stopped again.
    summary: the results as tables and a plot.
"""
