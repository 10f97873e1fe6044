"""Pin every dependency in pins/: versions for all environments, and hashes of the files to install.

    python .ci/pins.py [--upgrade]

Run by `make constraints`, in an environment with uv and packaging. Versions of
`pins/constraints.txt` that still fit are kept, except with `--upgrade`. The files contain no
addresses, so pip looks in whatever indexes a machine is set up to use.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
PINS = ROOT / "pins"
PROVIDER = "./plugins/airflow-provider-probclass"
PYTHONS = ("3.11", "3.12", "3.13")
PATCH = {"development": ".7"}  # of Python 3.11, which packages of the "docs" extra need
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64"))

BUILD = ["editables", "hatchling", "setuptools", "wheel", "ziglang"]
INSTALLER = ["uv"]
DEVELOPMENT = [
    ".[all,bench,dev,docs,test]",
    f"{PROVIDER}[celery,openlineage]",
    *BUILD,
    *INSTALLER,
]
IMAGE = [
    ".[cli,delta,fsspec,iceberg,object-store,pandas,plots,yaml]",
    f"{PROVIDER}[celery,openlineage]",
]
# Environments of their own, whose versions are written by hand; the servers run without some of
# what they say that they need.
SEPARATE = {ROOT / "tests" / "servers.txt": ["--no-deps"], ROOT / "benchmarks" / "khiops.txt": []}


def uv(name: str, requirements: Iterable[str], output: Path, *options: str) -> None:
    """Resolve the requirements of an environment for every platform and write the result."""
    subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--universal"),
            *(
                "--python-version",
                PYTHONS[0] + PATCH.get(name, ""),
                "--fork-strategy",
                "fewest",
                "--no-header",
            ),
            *("--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--output-file"),
            *(str(output), *options),
        ],
        cwd=ROOT,
        input="\n".join(requirements),
        stdout=subprocess.DEVNULL,
        text=True,
        check=True,
    )


def requirement(pin: str, marker: str) -> str:
    """The pin, with its marker if that depends on the platform; empty if it is never true."""
    if not marker:
        return pin
    answers = {
        Marker(marker).evaluate(
            {
                "implementation_name": "cpython",
                "platform_machine": machine,
                "platform_python_implementation": "CPython",
                "platform_system": system.capitalize(),
                "python_full_version": f"{python}.{patch}",
                "python_version": python,
                "sys_platform": system,
            }
        )
        for python, patch, (system, machine) in product(PYTHONS, (0, 99), PLATFORMS)
    }
    return "" if answers == {False} else pin if answers == {True} else f"{pin} ; {marker}"


def fits(wheel: str) -> bool:
    """Whether a wheel is for a Python and a platform that we support."""
    pythons = {python.replace(".", "") for python in PYTHONS}
    return any(
        (
            tag.interpreter in {"py3", *(f"py{python}" for python in pythons)}
            or (tag.interpreter.removeprefix("cp") in pythons and not tag.abi.endswith("t"))
            or (tag.abi == "abi3" and int(tag.interpreter.removeprefix("cp3")) <= 13)
        )
        and re.match(r"any$|macosx_|(many)?linux.*_(x86_64|aarch64)$", tag.platform)
        for tag in parse_wheel_filename(wheel)[3]
    )


def pinned(lock: Path) -> list[str]:
    """Requirements with versions and hashes, of the packages in a lock file."""
    lines = []
    for package in tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]:
        if "directory" in package:
            continue
        pin = requirement(f"{package['name']}=={package['version']}", package.get("marker", ""))
        if not pin:
            continue
        wheels = [
            wheel
            for wheel in package.get("wheels", [])
            if fits(wheel.get("name") or wheel["url"].rsplit("/", 1)[1])
        ]
        files = wheels or [package["sdist"]]
        lines += [
            f"{pin} \\",
            " \\\n".join(sorted(f"    --hash=sha256:{file['hashes']['sha256']}" for file in files)),
        ]
    return lines


def write(path: Path, comment: str, lines: Iterable[str]) -> None:
    """Write a file of requirements below a comment."""
    path.write_text("\n".join([f"# {comment}", *lines, ""]), encoding="utf-8")


def main() -> None:
    """Resolve the development environment, then pin every other one to the same versions."""
    update = "Update with: make constraints"
    constraints = PINS / "constraints.txt"
    with tempfile.TemporaryDirectory() as folder:
        versions, lock = Path(folder, "versions.txt"), Path(folder, "pylock.toml")
        versions.write_text(constraints.read_text(encoding="utf-8"), encoding="utf-8")
        uv(
            "development",
            DEVELOPMENT,
            versions,
            *(["--upgrade"] if "--upgrade" in sys.argv else []),
        )
        resolved = (line for line in versions.read_text().splitlines() if "==" in line)
        pins = {requirement(*line.partition(" ; ")[::2]) for line in resolved} - {""}
        write(versions, "", sorted(pins))

        for name, requirements in (
            ("installer", INSTALLER),
            ("build", BUILD),
            ("image", IMAGE),
            ("development", DEVELOPMENT),
        ):
            lock.unlink(missing_ok=True)
            uv(name, requirements, lock, "--constraint", str(versions), "--format", "pylock.toml")
            lines = pinned(lock)
            write(PINS / f"{name}.txt", f"Packages to install, with hashes. {update}", lines)
            pins |= {line.removesuffix(" \\") for line in lines[::2]}
        write(constraints, f"The version of every dependency. {update}", sorted(pins))
        for path, options in SEPARATE.items():
            comment, *lines = path.read_text(encoding="utf-8").splitlines()
            pins = [line.removesuffix("\\") for line in lines if not line.startswith(" ")]
            lock.unlink(missing_ok=True)
            uv(path.stem, pins, lock, "--format", "pylock.toml", *options)
            write(path, comment.removeprefix("# "), pinned(lock))


if __name__ == "__main__":
    main()
