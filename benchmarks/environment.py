"""Where figures are measured: the date, the machine and the versions of packages."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "deltalake",
    "duckdb",
    "faiss-cpu",
    "numpy",
    "pandas",
    "polars",
    "probclass-kernels",
    "pyarrow",
    "pykdtree",
    "pyspark",
    "scikit-learn",
    "scipy",
)


@dataclass(frozen=True)
class Environment:
    """Where figures are measured.

    Attributes:
        date: day in UTC, as ``"2026-01-31"``.
        machine: processor, cores and memory in words.
        versions: versions by name, of Python, probclass and the packages it is compared with.
    """

    date: str
    machine: str
    versions: Mapping[str, str]

    @property
    def software(self) -> str:
        """The versions in words."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


def environment() -> Environment:
    """The environment of this process."""
    import probclass_core

    versions = {"Python": platform.python_version(), "probclass": probclass_core.__version__}
    for package in PACKAGES:
        versions[package] = importlib.metadata.version(package)
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    machine = f"{_processor()}, {os.cpu_count()} cores, {gigabytes:.0f} GB"
    return Environment(datetime.datetime.now(datetime.UTC).date().isoformat(), machine, versions)


def _processor() -> str:
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        for line in cpu_info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
