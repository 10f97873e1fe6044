"""The files of docker/ fit the installed version of Airflow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

import probclass_core as pc

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
VALUES: dict[str, Any] = yaml.safe_load((DOCKER / "helm-values.yaml").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def options_set() -> set[tuple[str, str]]:
    """Section and option of every Airflow setting in the files of docker/."""
    variables = set(re.findall(r"AIRFLOW__[A-Z_]+", "".join(map(str, SERVICES.values()))))
    variables |= set(re.findall(r"AIRFLOW__[A-Z_]+", (DOCKER / "Dockerfile").read_text()))
    from_environment = {tuple(name.lower().split("__")[1:]) for name in variables}
    assert len(from_environment) > 10
    return from_environment | {
        (section, option) for section, options in VALUES["config"].items() for option in options
    }


def test_airflow_has_every_option_that_is_set() -> None:
    from airflow.configuration import conf

    existing = {
        (section, option)
        for section, content in conf.configuration_description.items()
        for option in content["options"]
    }
    assert options_set() - existing == set()


def test_no_container_runs_as_root() -> None:
    assert {str(service["user"]).partition(":")[0] for service in SERVICES.values()} == {
        "50000",
        "postgres",
        "redis",
    }
    last = re.findall(r"^USER (.+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)[-1]
    assert last == "50000:0"


def test_every_secret_is_required_and_empty_in_the_example() -> None:
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    required = set(re.findall(r"\$\{(\w+):\?", text))
    example = dict(
        line.split("=", 1)
        for line in (DOCKER / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert {name for name, value in example.items() if not value} == required
    for name in re.findall(r"\$\{(\w*(?:SECRET|PASSWORD|KEY))\b", text):
        assert name in required


def test_services_have_health_checks_and_limits_of_memory_and_of_their_logs() -> None:
    for name, service in SERVICES.items():
        keeps_running = service["restart"] == "unless-stopped"
        assert keeps_running != service["healthcheck"].get("disable", False), name
        assert service["deploy"]["resources"]["limits"]["memory"], name
        assert service["logging"]["options"]["max-size"], name


def test_logs_of_tasks_and_data_are_in_volumes() -> None:
    paths = {"/data", "/data/models", "/opt/airflow/logs"}
    for service in SERVICES.values():
        if service["image"].startswith("probclass:"):
            mounted = dict(reversed(volume.split(":")) for volume in service["volumes"])
            assert paths <= set(mounted)
            assert set(mounted.values()) <= set(COMPOSE["volumes"])
    assert VALUES["logs"]["persistence"]["enabled"]


def test_every_part_of_the_helm_chart_has_resources() -> None:
    parts = ["apiServer", "dagProcessor", "migrateDatabaseJob", "redis", "scheduler", "statsd"]
    for part in (*(VALUES[name] for name in (*parts, "triggerer")), VALUES["workers"]["celery"]):
        assert part["resources"]["limits"]["memory"]
        assert part["resources"]["requests"].keys() == {"cpu", "memory"}


def test_a_drained_node_leaves_one_of_each_part_that_runs_need() -> None:
    for part in (VALUES["apiServer"], VALUES["scheduler"], VALUES["workers"]["celery"]):
        assert part["replicas"] == 2
        budget = part["podDisruptionBudget"]
        assert budget == {"enabled": True, "config": {"maxUnavailable": 1}}


def test_nothing_that_the_chart_starts_needs_what_the_image_lacks() -> None:
    """The chart's jobs and sidecars run scripts and providers of Airflow's own image."""
    parts = [VALUES[name] for name in ("scheduler", "dagProcessor", "triggerer")]
    for part in (*parts, VALUES["workers"]["celery"]):
        assert part["logGroomerSidecar"] == {"enabled": False}
    assert VALUES["createUserJob"] == {"enabled": False}  # a user of FAB, admin:admin
    assert "simple_auth_manager_users" not in VALUES["config"]["core"]  # nor one of another


def test_images_are_pinned_by_digest_and_ours_by_its_version() -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    base = re.search(r"^ARG BASE=(.+)$", dockerfile, re.MULTILINE)
    assert base is not None
    for image in (base[1], SERVICES["postgres"]["image"], SERVICES["redis"]["image"]):
        assert re.search(r":\d+\.\d+(\.\d+)?-\w.*@sha256:[0-9a-f]{64}$", image), image
    ours = f"probclass:{pc.__version__}"
    assert f"--tag {ours} " in dockerfile
    assert SERVICES["worker-1"]["image"] == f"probclass:${{PROBCLASS_TAG:-{pc.__version__}}}"
    (passwords,) = VALUES["apiServer"]["extraInitContainers"]
    helm = f"{VALUES['defaultAirflowRepository']}:{VALUES['defaultAirflowTag']}"
    assert passwords["image"] == helm == ours


def test_airflow_has_the_version_of_the_constraints() -> None:
    pins = (ROOT / "pins" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    version = f"apache-airflow=={VALUES['airflowVersion']}"
    assert version in pins
    assert f" {version} " in (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


class Monitor(BaseHTTPRequestHandler):
    """Answers as the API server of an Airflow whose scheduler has ended."""

    def do_GET(self) -> None:
        healthy, ended = {"status": "healthy"}, {"status": "unhealthy"}
        report = {"metadatabase": healthy, "scheduler": ended, "dag_processor": healthy}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({**report, "triggerer": {"status": None}}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("service", "code", "problem"),
    [
        ("airflow api-server", 0, ""),
        ("airflow standalone", 1, "scheduler is unhealthy\ntriggerer is None\n"),
        ("sleep 60", 2, "no health check for: sleep 60\n"),
    ],
)
def test_a_health_check_reads_what_the_api_server_reports(
    service: str, code: int, problem: str
) -> None:
    with HTTPServer(("127.0.0.1", 0), Monitor) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        check = subprocess.run(
            [DOCKER / "health", service],
            env={"PATH": path, "AIRFLOW__API__PORT": str(server.server_port)},
            capture_output=True,
            text=True,
            check=False,
        )
        server.shutdown()
    assert (check.returncode, check.stderr) == (code, problem)


def test_scripts_are_executable_and_parse() -> None:
    for script in ("entrypoint", "health"):
        path = DOCKER / script
        assert path.stat().st_mode & 0o111
        shell = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!").split()
        subprocess.run([*shell, "-n", path], check=True)
