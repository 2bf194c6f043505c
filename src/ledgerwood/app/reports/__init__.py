"""Reports: one HTML file about a model, a plan or a release to another party."""
