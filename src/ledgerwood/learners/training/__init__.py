"""What every fit does around its releases: public metadata, the release session, discovery, checkpoints, statements."""
