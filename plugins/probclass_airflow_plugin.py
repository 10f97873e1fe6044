"""Registers the page of models if Airflow mounts this folder as its plugins folder.

An installed airflow-provider-probclass registers the page by its entry point, and this file then
does nothing.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="probclass"):
    from probclass_airflow.ui.plugin import ProbClassPlugin as ProbClassPlugin
