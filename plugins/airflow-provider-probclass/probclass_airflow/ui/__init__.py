"""The page of models in Airflow's UI: what lies in the stores, and what each task reported.

Reading map:
    plugin: what Airflow is told of it.
    app: the routes, each behind Airflow's own login and permissions; what a refusal looks like.
    shelves: which stores are shown, and how one of their versions is found.
    overview: the stores' models, the versions of one.
    card: all that is kept of one version.
    parameters: parameter tables as people read them.
    pictures: plots as SVG, for a light page and for a dark one.
    runs: what a task reported, from Airflow's database.
    shown: numbers, times and places as text.
    templates/, static/: the pages. Every value is escaped; there is one stylesheet, and a script of
        a few lines that follows Airflow's choice of light or dark.

It is loaded by Airflow's API server alone, when that starts.
"""
