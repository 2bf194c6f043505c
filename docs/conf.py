"""Configuration of the documentation."""

import sys
from pathlib import Path

from ledgerwood import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "Ledgerwood"
author = "The Ledgerwood maintainers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False

html_theme = "furo"
html_title = "Ledgerwood"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
