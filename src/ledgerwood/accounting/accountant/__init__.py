"""How a cost is priced: closed forms, privacy-loss distributions, the bounded-range recursion, calibration, filters."""
