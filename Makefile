# Everything a developer or the CI runs. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BENCH_VENV := .venv-bench
FORGE_VENV := .venv-forge
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(BENCH_VENV)/.installed
# Without compiled files, every process that a test starts would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= 2
FAST := not slow and not crash and not chaos and not load and not browser
UNIT := $(FAST) and not wire
EXTRAS := acp,audit,cli,client,code,images,llama,mcp,metrics,oidc,openai,openapi,otlp,postgres,prices,pydantic-ai,reload,s3,sandbox,search,server,temporal,docs,dev

.DEFAULT_GOAL := help
.PHONY: help setup node demo test check lint types unit fast wire coverage slow crash chaos chaos-short load docs dist \
	console console-check browser screenshots deploy-check deploy-lint first-hour conformance clients schemathesis model-test bench mutants format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything pinned in constraints.txt

$(STAMP): pyproject.toml constraints.txt scripts/venv.sh
	scripts/venv.sh "$(PYTHON)" $(VENV) constraints.txt '.[$(EXTRAS)]'
	@# A warning of the compiler about a library would be an error of the test that imports it first.
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib/python3.*/site-packages
	@touch $@ $(DEMO_STAMP)

# The first stage of the same environment: a third of its size.
$(DEMO_STAMP): pyproject.toml constraints.txt scripts/venv.sh
	scripts/venv.sh "$(PYTHON)" $(VENV) constraints.txt '.[demo,reload]'
	@touch $@

$(BENCH_STAMP): pyproject.toml constraints-bench.txt scripts/venv.sh
	scripts/venv.sh "$(PYTHON)" $(BENCH_VENV) constraints-bench.txt '.[bench]'
	@touch $@

# Another gateway to compare with, which pins another `mcp`. Benchmarks without it say so.
$(FORGE_VENV)/.installed:
	"$(PYTHON)" -m venv --clear $(FORGE_VENV)
	$(FORGE_VENV)/bin/pip install --quiet mcp-contextforge-gateway==1.0.7.post20260921
	@touch $@

node: ## Install the JavaScript programs that tests speak with
	@scripts/node.sh >/dev/null

demo: $(DEMO_STAMP) ## Run the demo; needs no key and no network
	$(BIN)/toolcrib demo

check: lint types unit ## Before every commit: lint, types, unit tests

# Side by side what needs one core, alone what needs both or measures time.
test: setup ## All that the CI runs
	$(MAKE) -j2 --output-sync=target lint types node console
	$(MAKE) fast
	$(MAKE) slow
	$(MAKE) -j2 --output-sync=target crash console-check docs dist deploy-lint first-hour
	$(MAKE) chaos-short
	$(MAKE) browser
	$(MAKE) load

lint: setup ## Lint and check the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup ## Type-check everything, strictly
	$(BIN)/pyright --warnings

unit: setup ## The fast tests
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "$(UNIT)"

# They wait for processes and sockets half of their time, so there are more workers than cores.
fast: setup node ## The fast and the wire tests in one run
	scripts/marked.sh "$(FAST)" -n 3 --dist worksteal

wire: setup node ## The tests that speak through real SDKs, servers and agents
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "$(FAST) and wire"

coverage: setup node ## The fast and the wire tests, and how much of the package they reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n $(WORKERS) --dist worksteal -m "$(FAST)"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

slow: setup node ## Tests that take seconds, or play whole recordings
	scripts/marked.sh slow -n 3 --dist worksteal

crash: setup ## Tests that kill processes
	scripts/marked.sh crash

chaos: setup ## Three replicas and 500 disturbances, then with Temporal; half an hour or more
	nice $(BIN)/python -m tests.chaos.run --disturbances 400 --lease 3
	nice $(BIN)/python -m tests.chaos.run --disturbances 100 --lease 10
	nice $(BIN)/python -m tests.chaos.run --disturbances 100 --lease 3 --engine temporal

chaos-short: setup ## The short form of make chaos
	scripts/marked.sh chaos -s

load: setup ## Tests with many calls at once
	scripts/marked.sh load

console: setup ## Build the console, the page for browsers, into console/dist
	$(BIN)/python scripts/console.py

console-check: setup ## The console's generated types, tsc, eslint, prettier and vitest
	$(BIN)/python scripts/console.py --check

browser: setup ## The console in Debian's Chromium, against a real server
	@scripts/chromium.sh
	$(BIN)/python scripts/console.py --if-needed
	scripts/marked.sh browser -n $(WORKERS) --dist loadfile

screenshots: setup ## Take the pictures of the console in docs/screenshots
	@scripts/chromium.sh
	$(BIN)/python scripts/console.py --if-needed
	$(BIN)/python scripts/screenshots.py

docs: setup ## Build the documentation site into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: setup ## Build sdist and wheel into dist/, install the wheel into a fresh environment, run it
	$(BIN)/python scripts/dist.py

deploy-lint: setup ## Lint the Dockerfile, the compose file, the proxies' files and the unit in deploy/
	$(BIN)/python scripts/deploy_check.py

deploy-check: setup ## The same, and build the image if a Docker daemon is there
	$(BIN)/python scripts/deploy_check.py --build

first-hour: ## What a newcomer does first, from a fresh clone and without rights of root
	scripts/first_hour.sh

conformance: setup node ## The official MCP conformance suite against our server and our client, in both eras
	scripts/conformance.sh
	$(BIN)/python -m tests.conformance.client_suite build/conformance/client

clients: setup node ## Real clients of the provider and the MCP server, each with packages of its own
	$(BIN)/python -m tests.clients.run

schemathesis: setup ## Ask the HTTP server and the provider everything that their OpenAPI documents allow, and more
	scripts/schemathesis.sh
	scripts/schemathesis.sh --provider

model-test: setup ## Examine the local model: choices of tools, whole loops, the demo (fetches 1.6 GB once)
	$(BIN)/toolcrib model pull
	$(BIN)/toolcrib model pull --small
	$(BIN)/python scripts/model_test.py
	$(BIN)/python scripts/model_demo.py
	TOOLCRIB_MODEL_TEST=1 $(BIN)/pytest -q tests/model

bench: $(BENCH_STAMP) ## Compare speed with other libraries, in an environment of its own
	$(BENCH_VENV)/bin/python benchmarks/run.py

mutants: setup ## Break the core on purpose; the tests must notice
	scripts/mutants.sh

format: setup ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove environments, caches and reports
	rm -rf $(VENV) $(BENCH_VENV) $(FORGE_VENV) .node mutants build dist console/dist console/node_modules \
		console/.node console/.built htmlcov .coverage .coverage.* \
		.hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
