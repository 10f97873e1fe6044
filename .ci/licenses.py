"""Report the licenses of all pinned packages: `make licenses`.

Prints one line for each package of pins/development.txt that is installed: name, version, license,
and where it is used. Packages with a copyleft license come first; docs/deployment.md lists them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

PINS = Path(__file__).parents[1] / "pins"
COPYLEFT = re.compile(r"\b(A?GPL|LGPL|MPL|EPL|CDDL|EUPL)|Mozilla|GNU|Lesser")


class Package(NamedTuple):
    """A pinned package and its license, as its own metadata state it."""

    name: str
    version: str
    license: str
    used_in: str

    @property
    def copyleft(self) -> bool:
        """Whether the license, or one of several, requires that changes are published."""
        return COPYLEFT.search(self.license) is not None


def license_of(package: Distribution) -> str:
    """The SPDX expression of a package, or else its classifiers, or the first line of the text."""
    metadata = package.metadata
    classifiers = [
        line.rpartition(" :: ")[2].removesuffix(" License")
        for line in metadata.get_all("Classifier", [])
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    first_line = (metadata.get("License") or "").strip().partition("\n")[0]
    return metadata.get("License-Expression") or ", ".join(classifiers) or first_line or "unknown"


def packages() -> Iterator[Package]:
    """The pinned packages that this environment has."""
    names = {
        environment: re.findall(r"^([\w-]+)==", (PINS / f"{environment}.txt").read_text(), re.M)
        for environment in ("image", "development")
    }
    for name in names["development"]:
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue  # it is for another platform
        used_in = "image" if name in names["image"] else "development"
        yield Package(name, installed.version, license_of(installed), used_in)


def main() -> None:
    """Print the report, those with a copyleft license first."""
    for package in sorted(packages(), key=lambda package: (not package.copyleft, package)):
        name, version, license_, used_in = package
        sys.stdout.write(f"{name:<42} {version:<18} {used_in:<12} {license_}\n")


if __name__ == "__main__":
    main()
