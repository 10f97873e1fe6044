"""The pages of models in Airflow's UI: what each model did, its versions, the report of each task.

Reading map:
    plugin: what the pages register with Airflow.
    app: the routes, each with Airflow's login and permissions, and the error pages.
    stores: which stores the pages show, and how a version is found.
    rows: records as rows of tables: models, versions, evaluations, partitions.
    status: the sentence at the top of a page that says what is wrong.
    listing: tables that are filtered, sorted and divided into pages.
    partition_dates: dates of partitions, and gaps between them.
    timeline: what a model did over time, as lanes of an SVG.
    comparison: two versions compared; drift of versions and of scored rows.
    model_card: the card of one version.
    parameters: parameter tables as grids.
    plots: plots as SVG, for a light and for a dark page.
    runs: the report of a task, from Airflow's database.
    formatting: numbers, times and URIs as text.
    templates/, static/: the pages. Every value is escaped; there is one stylesheet, and a short
        script that follows Airflow's choice of light or dark.

Only Airflow's API server imports the application, when it starts.
"""
