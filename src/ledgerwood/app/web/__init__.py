"""The planner page: a local server, its answers and the worker process behind them."""
