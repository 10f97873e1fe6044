"""Years of a scheduled model, month by month in a real Airflow, with labels a month late.

dags/    the DAG: a model with a fallback
library  the same without Airflow, and one without for comparison
results  what was served in each month, whether a warning was due, and whether it was given
picture  the timeline of one model
windows  the next month predicted by models of fewer and of more months
"""
