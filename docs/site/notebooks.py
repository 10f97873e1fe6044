"""The example notebooks: run as a reader would run them, and turned into pages of the site."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from traitlets.config import Config

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

_SECONDS = 60  # for one cell
_HTML_TABLE = re.compile(r"<style scoped>.*?</style>\s*|<table[^>]*>", re.DOTALL)


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a fresh run, in a folder of its own that has ``tests/data``.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell fails; the message shows it.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        client = NotebookClient(
            notebook,
            timeout=_SECONDS,
            kernel_name="python3",
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}),
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return notebook


def as_page(notebook: nbformat.NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its pictures by file name; ``name`` tells them apart."""
    exporter = MarkdownExporter(preprocessors=[CoalesceStreamsPreprocessor])
    text, resources = exporter.from_notebook_node(
        notebook, {"unique_key": name, "output_files_dir": "."}
    )
    # pandas sets borders and styles of its own; the site's are those of its other tables.
    text = _HTML_TABLE.sub(lambda found: "<table>" if found[0].startswith("<table") else "", text)
    return text, {Path(file).name: content for file, content in resources["outputs"].items()}
