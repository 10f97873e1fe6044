"""What the site has beyond the pages of ``docs/``: pages from elsewhere, and notebooks as run.

Links are written for readers of the repository. Here they are turned to where the site has their
targets; what still leads nowhere is MkDocs's to refuse.
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
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "plugins/probclass-kde/README.md": "plugins/kde.md",
    "plugins/probclass-student-t/README.md": "plugins/student_t.md",
    "probclass_core/demo/beijing_pm25.md": "data/beijing_pm25.md",
    "tests/data/README.md": "data/tests.md",
}
"""Pages that stand outside ``docs/``: their place in the repository, and on the site."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)")
_FROM_OUTSIDE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload)\b)[^>]*\bhref=\"?(?:https?:)?//"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, the notebooks as run now, and the style sheet beside this."""
    for place, uri in ELSEWHERE.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        if not place.endswith(".md"):
            text = f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, uri, content=text))
    for path in NOTEBOOKS:
        text, pictures = as_page(execute(path), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    style = (ROOT / "docs" / "site" / "site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository to where the site has their targets."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    on_site = {uri: place for place, uri in ELSEWHERE.items()}
    here = posixpath.dirname(on_site.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def turned(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, link["path"]))
        uri = ELSEWHERE.get(target) or target.removeprefix("docs/").replace(".ipynb", ".md")
        known = files.get_file_from_path(uri) is not None
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri)) if known else link[0]

    return _LINK.sub(turned, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads anything from another host: the site is read offline, too."""
    found = _FROM_OUTSIDE.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} loads something from another host: {found[0]}")
    return output
