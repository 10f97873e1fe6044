"""The pages of models in Airflow's UI: the models of the stores, and the report of each task.

Reading map:
    plugin: what the pages register with Airflow.
    app: the routes, each with Airflow's login and permissions, and the error pages.
    stores: which stores the pages show, and how a version is found.
    overview: the models of a store, the versions of a model.
    model_card: the card of one version.
    parameters: parameter tables as grids.
    plots: plots as SVG, for a light and for a dark page.
    runs: the report of a task, from Airflow's database.
    formatting: numbers, times and URIs as text.
    templates/, static/: the pages. Every value is escaped; there is one stylesheet, and a short
        script that follows Airflow's choice of light or dark.

Only Airflow's API server imports the application, when it starts.
"""
