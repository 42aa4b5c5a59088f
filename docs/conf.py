"""Sphinx: `sphinx-build -W docs docs/_build/html`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Wharfinger"
author = "The Wharfinger authors"
project_copyright = f"2026, {author}"
html_theme = "furo"
html_title = "Wharfinger"
extensions = ["myst_parser", "sphinxcontrib.mermaid", "reference_pages"]
exclude_patterns = ["_build", "adr/template.md"]
myst_heading_anchors = 3
nitpicky = True
