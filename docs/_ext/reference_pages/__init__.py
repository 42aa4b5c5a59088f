"""Sphinx extension: reference pages written from the code at each build, so they are current.

They land in `docs/reference/generated`, which is not committed.
"""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from reference_pages.pages import PAGES


def write_pages(folder: Path) -> None:
    """Write those that differ from what stands there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", page()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this when it loads the extension."""
    app.connect("builder-inited", lambda app: write_pages(app.srcdir / "reference" / "generated"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
