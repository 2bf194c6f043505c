"""Private linear models: AdaSSP and its boosted forms (P4)."""
