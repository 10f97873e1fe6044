"""The pages of models in Airflow's UI: what each model did, its versions, the report of each task.

Reading map:
    plugin: what the pages register with Airflow.
    app: the routes, each with Airflow's login and permissions, and the error pages.
    stores: which stores the pages show, and how a version is found.
    runs: Airflow's own records: the newest runs of a DAG, and what a task returned.
    status: the state of each model, and what needs attention.
    rows: records as rows of tables: versions, evaluations, partitions, promotions.
    listing: tables that are filtered, sorted and divided into pages.
    partition_dates: dates of partitions, and gaps between them.
    timeline: what a model did over time, as lanes of SVG.
    comparison: two versions compared; drift of scored rows.
    model_card: the card of one version.
    plots: plots as SVG, for a light and for a dark page.
    templates/, static/: the pages. Every value is escaped; there is one stylesheet, and a short
        script that follows Airflow's choice of light or dark.

Only Airflow's API server imports the application, when it starts.
"""
