"""The page of models, for an Airflow that finds probclass in its plugins folder.

Where probclass is installed as well, its entry point registers the page, and this file stands back.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="probclass"):
    from probclass_airflow.ui.plugin import ProbClassPlugin as ProbClassPlugin
