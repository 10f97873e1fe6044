"""Execute the example notebooks and convert them to pages of the site."""

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

_CELL_SECONDS = 60
_HTML_TABLE = re.compile(r"<style scoped>.*?</style>\s*|<table[^>]*>", re.DOTALL)


def execute(path: Path) -> nbformat.NotebookNode:
    """Execute a notebook in a temporary folder, which is empty.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails; the message shows the cell.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=_CELL_SECONDS,
            kernel_name="python3",
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}),
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return notebook


def as_page(notebook: nbformat.NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """Convert a notebook to Markdown and its pictures by file name, which start with ``name``."""
    exporter = MarkdownExporter(preprocessors=[CoalesceStreamsPreprocessor])
    text, resources = exporter.from_notebook_node(
        notebook, {"unique_key": name, "output_files_dir": "."}
    )
    # Remove the styles of pandas, so that its tables look like the others of the site.
    text = _HTML_TABLE.sub(lambda tag: "<table>" if tag[0].startswith("<table") else "", text)
    return text, {Path(file).name: content for file, content in resources["outputs"].items()}
