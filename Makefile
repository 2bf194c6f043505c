# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo demo-daily-count demo-dask demo-federated demo-opboost test slow coverage lint types workflows docs dist changes bench papers papers-quick clean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --retries 10 --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## set up, then run the main job
	$(BIN)/python examples/bank_marketing.py

demo-opboost: $(STAMP)  ## three parties on this machine, with certificates made on the spot
	$(BIN)/python examples/opboost.py

demo-daily-count: $(STAMP)  ## a count published every day of a year, with correlated noise
	$(BIN)/python examples/daily_count.py

demo-dask: $(STAMP)  ## a local cluster of processes loses a worker and gives the same model
	$(BIN)/python examples/dask_cluster.py

demo-federated: $(STAMP)  ## three parties train over Flower on this machine
	$(BIN)/python examples/federated.py

test: $(STAMP)  ## set up, then run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

slow: $(STAMP)  ## the long checks
	$(BIN)/python -m pytest -m slow

# The floor is for the code that keeps the budget and the code that reads records: see [tool.coverage] in pyproject.toml.
FLOOR := 90
GUARDED := */accounting/ledger/*,*/learners/data/*

coverage: $(STAMP)  ## branch coverage of all tests: a report in build/coverage, and a floor for ledger and data
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory build/coverage
	$(BIN)/coverage report
	$(BIN)/coverage report --include='$(GUARDED)' --fail-under=$(FLOOR)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

workflows: $(STAMP)  ## the files of .github/workflows against the schema of GitHub Actions
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

docs: $(STAMP)
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

dist: $(STAMP)  ## wheel and sdist, installed in a clean environment
	rm -rf dist build/clean
	$(BIN)/hatchling build
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	cd build && clean/bin/python -c "from ledgerwood.accounting import Gaussian; print(Gaussian(sigma=2.0).epsilon(1e-6))"
	build/clean/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/from-sdist dist/*.tar.gz

changes:  ## the changelog section of what has no release yet
	$(PYTHON) changes/assemble.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks.accounting

papers-quick: $(STAMP)  ## one split of the papers' experiments, thinned, run anew: make papers-quick DATA=DIR
	$(BIN)/python -m benchmarks.papers --quick --results build/papers.jsonl $(if $(DATA),--data $(DATA))

papers: $(STAMP)  ## the papers' experiments as published, run anew; resumable, days on two cores
	$(BIN)/python -m benchmarks.papers --results build/papers.jsonl $(if $(DATA),--data $(DATA))

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
