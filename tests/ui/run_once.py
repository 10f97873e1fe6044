"""Run the DAG once in Airflow's database, and tell what the tests need: one line of JSON."""

from __future__ import annotations

import json
import os
import sys

from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

DagBundlesManager().sync_bundles_to_db()
bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"], bundle_name="dags-folder")
assert not bag.import_errors, bag.import_errors
sync_bag_to_db(bag, "dags-folder", None)
run = bag.dags["air"].test()
assert run.state == "success", run.state

from probclass_airflow.links import store_key  # noqa: E402 - the plugins folder is known by now

manager = init_auth_manager()
tokens = {
    "token": manager.generate_jwt(SimpleAuthManagerUser(username="anna", role="VIEWER")),
    "stranger": manager.generate_jwt(SimpleAuthManagerUser(username="eve", role=None)),
}
told = {"run_id": run.run_id, "key": store_key("models"), **tokens}
sys.stdout.write(json.dumps(told) + "\n")
