"""The program behind ``make demo``: a model operated on real months in a local Airflow.

It runs the folders `dags/` and `plugins/` of a checkout or of an installed Airflow.

Reading map:
    __main__: the steps of the demo.
    local_airflow: a local Airflow, started, used for runs, and stopped again.
    summary: what each run did, the table of months, and the timeline as a page.
"""
