"""Add pages from outside ``docs/`` and executed notebooks to the site.

Links in the pages are written for readers of the repository; here they are changed to the pages of
the site. MkDocs refuses links that are still broken.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebooks import NOTEBOOKS, as_page, execute

ROOT = Path(__file__).parents[2]
OTHER_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "SECURITY.md": "vulnerabilities.md",
    "benchmarks/data/README.md": "data/benchmarks.md",
    "plugins/probclass-distributions/README.md": "plugins/distributions.md",
    "plugins/probclass-kde/README.md": "plugins/kde.md",
    "plugins/probclass-student-t/README.md": "plugins/student_t.md",
    "probclass_core/demo/beijing_pm25.md": "data/beijing_pm25.md",
    "probclass_core/demo/examples.md": "data/examples.md",
}
"""Pages from outside ``docs/``: path in the repository to path on the site."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)")
_EXTERNAL = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload)\b)[^>]*\bhref=\"?(?:https?:)?//"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the other pages, the executed notebooks, and the style sheet of this folder."""
    for path, uri in OTHER_PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if not path.endswith(".md"):
            text = f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, uri, content=text))
    for notebook in NOTEBOOKS:
        text, pictures = as_page(execute(notebook), notebook.stem)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    style = Path(__file__).with_name("site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change links between files of the repository to links between pages of the site."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    if page.file.src_uri.startswith(("api/", "decision-records")):
        page.meta["search"] = {"boost": 0.3}  # guides come first
    sources = {uri: path for path, uri in OTHER_PAGES.items()}
    folder = posixpath.dirname(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def site_link(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        uri = OTHER_PAGES.get(target) or target.removeprefix("docs/").replace(".ipynb", ".md")
        if files.get_file_from_path(uri) is None:
            return link[0]
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri))

    return _LINK.sub(site_link, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads anything from another host, so that the site works offline."""
    external = _EXTERNAL.search(output)
    if external:
        raise PluginError(f"{page.file.src_uri} loads from another host: {external[0]}")
    return output
