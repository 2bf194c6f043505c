"""What Li et al. print in their Tables 4, 6, 7 and 8, to stand beside our results.

Rows are named as in our results: (method, alpha) or (method, theta, alpha). Their third task is CASP, ours Powerplant.
"""

from __future__ import annotations

METHODS = {
    ("local_map", 0.0): "Local-map",
    ("adj_map", 0.4): "Adj-map(α = 0.4)",
    ("adj_map", 0.6): "Adj-map(α = 0.6)",
    ("adj_map", 0.8): "Adj-map(α = 0.8)",
    ("global_map", 0.0): "Global-map",
    ("adj_map", 2.0): "Adj-map(α = 2)",
    ("adj_map", 5.0): "Adj-map(α = 5)",
    ("adj_map", 10.0): "Adj-map(α = 10)",
    ("piecewise", 0.0): "Piecewise",
    ("grr", 0.0): "GRR",
    ("laplace_map", 0.0): "Laplace-map (ours)",
}

#: Seconds for 100 000 values at epsilon 0.08 and 1.28.
TABLE_4 = {
    ("global_map", 0, 0.0): (1.3874, 1.2764),
    ("local_map", 4, 0.0): (3.0140, 3.0189),
    ("local_map", 10, 0.0): (5.8893, 5.7287),
    ("adj_map", 4, 0.4): (4.1220, 3.0685),
    ("adj_map", 4, 10.0): (4.0763, 3.0060),
    ("adj_map", 10, 0.4): (5.6929, 3.4936),
    ("adj_map", 10, 10.0): (5.5308, 3.4848),
}

#: Ratios to the raw model: (epsilon 0.08, theta 2), (0.08, 4), (1.28, 2), (1.28, 4), each Adult, Pen-digits, CASP.
TABLE_6 = {
    ("local_map", 0.0): (.9947, .9930, .9208, .9566, .9670, .8187, 1.0003, .9958, .9361, .9602, .9812, .8690),
    ("adj_map", 0.4): (.5413, .5297, .6388, .6722, .4444, .6348, .6483, .9279, .8136, .6433, .9144, .8039),
    ("adj_map", 0.6): (.6343, .5393, .6391, .7252, .5266, .6363, .6398, .9380, .8229, .6703, .9249, .8123),
    ("adj_map", 0.8): (.6689, .5753, .6415, .6553, .4846, .6389, .6656, .9359, .8277, .6404, .9270, .8140),
    ("global_map", 0.0): (.5935, .5630, .6394, .6095, .5513, .6380, .6797, .9384, .8283, .6300, .9309, .8141),
    ("adj_map", 2.0): (.7311, .5981, .6401, .6788, .5507, .6414, .6735, .9458, .8321, .6533, .9324, .8123),
    ("adj_map", 5.0): (.6751, .6177, .6435, .5870, .6106, .6394, .7188, .9478, .8338, .8921, .9400, .8065),
    ("adj_map", 10.0): (.6817, .6329, .6449, .6213, .5815, .6424, .7733, .9488, .8350, .7554, .9372, .8051),
    ("piecewise", 0.0): (.5821, .1187, .6249, .5821, .1187, .6249, .7487, .7487, .7014, .7487, .7847, .7014),
}  # fmt: skip

#: Bytes with XGBoost: party A on Adult, Pen-digits, CASP, then party B on the same.
TABLE_7 = {
    ("local_map", 0.0): (198, 768, 385, 522097, 482215, 1318612),
    ("global_map", 0.0): (203, 695, 401, 522107, 482069, 1318645),
    ("adj_map", 0.4): (224, 820, 459, 522148, 482321, 1318760),
    ("adj_map", 10.0): (221, 821, 459, 522143, 482323, 1318760),
    ("piecewise", 0.0): (500, 12278, 2318, 522703, 505220, 1322469),
}

#: Milliseconds with XGBoost: bounded discrete Laplace on Adult, Pen-digits, CASP, then the exponential mechanism.
TABLE_8 = {
    ("local_map", 0.0): (951.7, 1089.7, 2151.1, 218.1, 424.6, 325.7),
    ("global_map", 0.0): (462.3, 1587.8, 1010.7, 214.1, 428.4, 316.8),
    ("adj_map", 0.4): (1476.9, 1587.8, 3481.0, 268.4, 477.7, 448.2),
    ("adj_map", 10.0): (8313.3, 8054.4, 20584.5, 272.5, 481.7, 447.8),
    ("piecewise", 0.0): (305.5, 650.4, 495.1, 305.5, 650.4, 495.1),
}
