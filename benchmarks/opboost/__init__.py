"""OpBoost again: accuracy, order, range queries, run time and bytes, each resumable and small enough to commit."""
