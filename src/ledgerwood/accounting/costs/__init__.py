"""What a release costs: immutable values that form an algebra, one class per kind of release."""
