# Everything a person does here, one word each. `make` prints the list.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OLDEST_ORT := 1.23.1
KERNEL_SOURCES := $(shell find kernels -type f -not -name '*.pyc')

.DEFAULT_GOAL := help
.PHONY: help setup demo llm-models llm-test test check format docs conformance conformance-fast fuzz emulated thorough bench estimators provider-oldest provider-everywhere genai clean

help: ## print this list
	@echo "hip-compiler: compiles ONNX models for the CPU and for AMD GPUs"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv and install hip-compiler with its test tools

demo: $(STAMP) ## compile and run real pretrained networks, print their answers and times
	@$(BIN)/python -m examples.sentences
	@$(BIN)/python -m examples.file_types

llm-models: $(STAMP) ## build language models with onnxruntime-genai's builder (installs torch)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[llm-models]'
	@$(BIN)/python -m tests.models.genai

llm-test: llm-models ## compare those with onnxruntime-genai: text, logits, perplexity
	@$(BIN)/python -m pytest -n 1 -m llm tests/llm tests/generate

test: $(STAMP) ## fetch the pretrained networks, run the tests
	@echo "== networks"
	@$(BIN)/python -m tests.models
	@echo "== tests"
	@$(BIN)/python -m pytest

check: $(STAMP) ## formatting, lint, types, generated documents
	@echo "== format" && $(BIN)/ruff format --check .
	@echo "== lint" && $(BIN)/ruff check .
	@echo "== types" && $(BIN)/mypy
	@echo "== documents" && $(BIN)/python -m tools.generate_docs --check && $(BIN)/python -m tools.check_links

format: $(STAMP) ## format the sources, mend what the linter can mend
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(STAMP) ## write the generated documents anew
	@$(BIN)/python -m tools.generate_docs

conformance: $(STAMP) ## run ONNX's own backend tests, compare with the committed baseline
	@$(BIN)/python -m benchmarks.conformance

conformance-fast: $(STAMP) ## the same for one case in eight, always the same ones
	@$(BIN)/python -m benchmarks.conformance --fast

fuzz: $(STAMP) ## draw many more shapes and numbers for the operators than `make test` does (minutes)
	@$(BIN)/python -m pytest tests/fuzz --hypothesis-profile=fuzz

emulated: $(STAMP) ## run every case of the host operators' tests on an emulated GPU (minutes)
	@$(BIN)/python -m pytest -m emulated tests/device

thorough: $(STAMP) ## run the cases that `make test` leaves out because it has others of their kind (minutes)
	@$(BIN)/python -m tests.models
	@$(BIN)/python -m pytest -m thorough tests

bench: $(STAMP) ## time the pretrained networks beside ONNX Runtime
	@$(BIN)/python -m tests.models
	@$(BIN)/python -m benchmarks.run

estimators: $(STAMP) ## convert estimators of scikit-learn, XGBoost and LightGBM, compile and compare them
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[estimators]'
	@$(BIN)/python -m benchmarks.estimators

provider-oldest: $(STAMP) ## test the execution provider with the oldest ONNX Runtime that it supports
	@test -d $(VENV)/onnxruntime-$(OLDEST_ORT) || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --target $(VENV)/onnxruntime-$(OLDEST_ORT) onnxruntime==$(OLDEST_ORT)
	@PYTHONPATH=$(VENV)/onnxruntime-$(OLDEST_ORT) $(BIN)/python -m pytest tests/ort tests/models/test_provider.py

provider-everywhere: $(STAMP) ## build the execution provider's library for Windows, macOS and Linux
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[native]'
	@$(BIN)/python -m kernels.provider x86_64-linux aarch64-linux x86_64-windows x86_64-macos aarch64-macos

genai: $(STAMP) ## generate text through onnxruntime-genai, with our execution provider and without
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[llm-models]'
	@$(BIN)/python -m benchmarks.genai

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) hip_compiler/_native .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed anew when the package's metadata, the build hook or a kernel changes; Python sources are used in place.
$(STAMP): pyproject.toml hatch_build.py $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "hip-compiler needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.13 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian: sudo apt-get install python3-venv"; exit 1; }
	@echo "== set-up: $(VENV) with hip-compiler and its test tools (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,models]'
	@touch $@
