"""Under construction in this release; see the changelog."""
