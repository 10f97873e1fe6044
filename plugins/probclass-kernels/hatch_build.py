"""Compile the C files when a wheel is built, for this machine or for another one.

PROBCLASS_PLATFORM is the platform tag of a wheel for another machine, one of `TARGETS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

TARGETS = {
    "manylinux_2_17_x86_64": ("x86_64-linux-gnu.2.17", "x86_64_v2"),
    "manylinux_2_17_aarch64": ("aarch64-linux-gnu.2.17", "baseline"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "x86_64_v2"),
    "musllinux_1_2_aarch64": ("aarch64-linux-musl", "baseline"),
    "macosx_11_0_x86_64": ("x86_64-macos.11.0", "x86_64_v2"),
    "macosx_11_0_arm64": ("aarch64-macos.11.0", "baseline"),
}
"""By the platform tag of a wheel, the target of the compiler and the least processor.

x86_64_v2 is what NumPy's own wheels need since 2.4: processors from 2009 on.
"""


class CompiledKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Adds kernels.so to the wheel, and gives the wheel the tag of its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before the files of the wheel are collected."""
        platform = os.environ.get("PROBCLASS_PLATFORM") or this_platform()
        if platform not in TARGETS:
            raise SystemExit(
                f"probclass-kernels has no wheels for {platform!r}, only for {', '.join(TARGETS)}."
            )
        target, processor = TARGETS[platform]
        package = Path(self.root, "probclass_kernels")
        library = package / "kernels.so"
        if version != "editable":
            library = Path(self.root, "build", platform, "kernels.so")
            library.parent.mkdir(parents=True, exist_ok=True)
            build_data["force_include"][str(library)] = "probclass_kernels/kernels.so"
        subprocess.run(
            [
                *(sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O3", "-s"),
                # One rounding per operation, as NumPy rounds: no fused multiply and add.
                *("-ffp-contract=off", "-Wall", "-Wextra", "-Werror"),
                *("-target", target, f"-mcpu={processor}"),
                *("-o", str(library), *map(str, sorted(package.glob("*.c")))),
            ],
            check=True,
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


def this_platform() -> str:
    """The platform of `TARGETS` that this machine prefers, or the first of its own without one."""
    platforms = [tag.platform for tag in sys_tags()]
    return next((platform for platform in platforms if platform in TARGETS), platforms[0])
