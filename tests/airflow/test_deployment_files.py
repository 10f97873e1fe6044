"""The files of docker/ fit the installed version of Airflow."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_running_service_has_a_health_check(name: str) -> None:
    service = SERVICES[name]
    keeps_running = service["restart"] == "unless-stopped"
    assert keeps_running != service["healthcheck"].get("disable", False)


def test_images_are_pinned_and_airflow_has_the_version_of_the_constraints() -> None:
    base = re.search(r"^ARG BASE=(.+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    for image in (base[1], SERVICES["postgres"]["image"], SERVICES["redis"]["image"]):
        assert re.search(r":\d+\.\d+(\.\d+)?-", image), image
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"apache-airflow=={VALUES['airflowVersion']}" in pins


@pytest.mark.parametrize(
    ("argument", "project"),
    [("EXTRAS", "."), ("AIRFLOW_EXTRAS", "plugins/airflow-provider-probclass")],
)
def test_the_image_installs_extras_that_exist(argument: str, project: str) -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    extras = re.search(rf"^ARG {argument}=(.+)$", dockerfile, re.MULTILINE)
    assert extras is not None
    metadata = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(extras[1].split(",")) <= set(metadata["project"]["optional-dependencies"])


@pytest.mark.parametrize("script", ["build.sh", "entrypoint", "health"])
def test_a_script_is_executable_and_parses(script: str) -> None:
    path = DOCKER / script
    assert path.stat().st_mode & 0o111
    shell = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!").split()
    subprocess.run([*shell, "-n", path], check=True)
