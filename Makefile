# make demo   set up, learn the scene of the paper from facts and axioms, show what came out
# make test   set up, check formatting, lint and types, run the tests
# make site   build the documentation as a site in build/site
# make pictures   draw all figures and take all screenshots of the documentation again
# make reproduce   run the paper's experiments, 5.5 hours of one core; ARGS=--quick for a few of them
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo figures pictures reproduce site test test-slow test-reliability test-torch test-pythons test-triton test-wheel check format clean

demo: $(STAMP)
	@$(BIN)/python examples/crossing/demo.py

reproduce: $(STAMP)
	$(BIN)/python -m reproduction run $(ARGS)

# The documentation as pages in build/site, to be read without a network, and tests of them.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	FOTLTN_SITE=build/site $(BIN)/pytest -q tests/test_site.py

# Figures of the documentation from their records, all in the style of fotltn/reporting/theme.py.
figures: $(STAMP)
	$(BIN)/python -m reproduction pages
	$(BIN)/python docs/draw_figures.py

# Figures, and screenshots of pages as tests drive them in Chromium.
pictures: figures
	FOTLTN_PICTURES=write $(BIN)/pytest -q -p no:xdist -m pictures tests/pictures

# What is compiled once, all programs share.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n 2

test: check
	$(PYTEST) -m "not slow"

test-slow: $(STAMP)
	$(PYTEST)

test-reliability: $(STAMP)
	$(PYTEST) -m reliability

test-wheel: # the wheel in an empty environment, outside the checkout
	PYTHON=$(PYTHON) .ci/wheel

test-torch: # a part of the tests with the oldest and the newest PyTorch, or with one: TORCH=2.4.0
	PYTHON=$(PYTHON) .ci/torch $(TORCH)

test-pythons: # types and a part of the tests with each Python that is here: PYTHONS="3.12 3.13"
	.ci/pythons $(PYTHONS)

test-triton: $(STAMP) # the kernels for a GPU, without one
	.ci/triton

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(STAMP): pyproject.toml constraints.txt requirements-oracles.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=python3.11 demo"; exit 1; }
	@echo "Setting up $(VENV) (a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-oracles.txt
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
