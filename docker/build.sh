#!/usr/bin/env bash
# Build the image without a Docker daemon or an image registry, and run the demo in it.
#
#   docker/build.sh [ARCHIVE]      as root; needs buildah, debootstrap, python3
#
# The base image is built from Debian packages, the rest from docker/Dockerfile. If ARCHIVE is given,
# the image is written to it for `docker load`. PROBCLASS_IMAGES names a directory for the images, so
# that the next build reuses the base; by default images are deleted when the script ends.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=${1:-}
image=probclass:$(sed -n 's/^VERSION = "\(.*\)"/\1/p' probclass_core/release.py)
scratch=$(mktemp -d)
images=${PROBCLASS_IMAGES:-$scratch/images}
trap 'buildah rm --all > /dev/null || true; rm -rf "$scratch"' EXIT

quietly() { "$@" > "$scratch/log" 2>&1 || { tail -40 "$scratch/log" >&2; exit 1; }; }

# Neither overlay file systems nor namespaces, so that this works in any container and CI machine.
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --storage-driver vfs --root "$images" --runroot "$scratch/run" "$@"; }

# pip in the build does not have this machine's indexes and certificates. Its settings are passed as a
# file, and each path in them is mounted at the same place.
pip_settings() {
  python3 - "$scratch/pip.conf" << 'PYTHON'
import ast, os, subprocess, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

listed = subprocess.run(
    [sys.executable, "-m", "pip", "config", "list"], capture_output=True, check=True, text=True
).stdout.splitlines()
passed = "cert client-cert extra-index-url find-links index-url no-index proxy timeout trusted-host"
settings = {}
# Settings of the environment come last, because they take precedence.
for line in sorted(listed, key=lambda line: line.startswith(":env:")):
    name, _, value = line.partition("=")
    if (key := name.rpartition(".")[2].removeprefix("default-")) in passed.split():
        settings[key] = ast.literal_eval(value).split()
lines = [f"{key} = " + "\n  ".join(values) for key, values in settings.items()]
Path(sys.argv[1]).write_text("\n".join(["[global]", *lines, ""]))
for value in sum(settings.values(), []):
    path = value
    if value.startswith("file:"):  # an index, whose pages link to files next to it
        path = os.path.dirname(unquote(urlsplit(value).path).rstrip("/"))
    if os.path.isabs(path) and os.path.exists(path):
        print(f"--volume={path}:{path}:ro")
PYTHON
  echo "--volume=$scratch/pip.conf:/etc/pip.conf:ro"
}

if ! buildah inspect --type image probclass-base > /dev/null 2>&1; then
  echo "The base image: a minimal Debian with Python"
  base=$(buildah from scratch)
  root=$(buildah mount "$base")
  quietly debootstrap --variant=minbase --include=ca-certificates,python3-venv bookworm "$root"
  rm -rf "$root"/var/{cache/apt/archives,lib/apt/lists}/*
  quietly buildah commit --rm --disable-compression "$base" probclass-base
fi

mapfile -t volumes < <(pip_settings)
echo "The image"
quietly buildah bud --format docker --disable-compression \
  --build-arg BASE=localhost/probclass-base --file docker/Dockerfile --tag "$image" "${volumes[@]}" .

container=$(buildah from "$image")
# Bytes of the file system, most of which are Python packages; registries compress the layers.
root=$(buildah mount "$container")
megabytes() { du --summarize --bytes "$1" | awk '{ printf "%.0f MB", $1 / 1e6 }'; }
echo "Size of $image: $(megabytes "$root"), Python packages $(megabytes "$root/opt/venv")"

echo "The demo, within the image"
buildah run "$container" -- python -m probclass_airflow.demo \
  --months 3 --dags /opt/airflow/dags --output /data/demo

if [ -n "$archive" ]; then
  buildah push --quiet "$image" "docker-archive:$archive:$image"
fi
