"""Run the DAG once in Airflow's database, and print what the tests need as one line of JSON."""

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

from probclass_airflow.links import store_key  # noqa: E402 - Airflow has now put the plugins folder on the path

manager = init_auth_manager()
tokens = {
    "token": manager.generate_jwt(SimpleAuthManagerUser(username="anna", role="VIEWER")),
    "token_without_role": manager.generate_jwt(SimpleAuthManagerUser(username="eve", role=None)),
}
facts = {"run_id": run.run_id, "key": store_key("models"), **tokens}
sys.stdout.write(json.dumps(facts) + "\n")
