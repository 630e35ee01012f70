# Nothing but Python 3.11 or newer, make and a package index is needed.
PYTHON ?= python3
BIN := .venv/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: site serve test lint mutants bench probes-bench lighthouse clean

site: .venv/site ## build the site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is built: open site/index.html in a browser."

serve: .venv/site ## show the site and rebuild it on every change
	$(BIN)/mkdocs serve

test: .venv/test ## run every test
	$(BIN)/python -m pytest

lint: .venv/lint ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

mutants: .venv/test ## break outputs, prose and code one by one; list what no check notices
	$(BIN)/python tools/mutants.py

bench: .venv/site ## time the builds against each other, at this size and at ten times it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python tools/bench.py

probes-bench: .venv/test .cache/peers/.installed ## count the faults that the probes find and their false alarms; SEEDS=3 for a short run
	$(BIN)/python -m tools.probes_bench --seeds $(or $(SEEDS),20)

lighthouse: site ## let Lighthouse judge every page; needs npx and Chromium
	$(BIN)/python tools/lighthouse.py

clean: ## remove what the commands above made
	rm -rf .venv site .cache

# The checkers that the probes are compared with. Without what they require: one wants torchvision,
# which would bring another torch. In a folder of their own: one is a plugin of pytest, which would
# run in every test. One that does not install is named by the bench, and tried again next time.
PEERS := pytest-torch==1.1.1 torchtest2==0.1.0 neural-net-checklist==1.1.0 pangolinn==0.0.1
.cache/peers/.installed: Makefile | .venv/bin/python
	@all=yes; for peer in $(PEERS); do \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	    --target $(@D) $$peer || { echo "not installed: $$peer" >&2; all=; }; \
	done; [ -z "$$all" ] || touch $@

# One stamp for each set of extras; a change of the requirements installs again.
.venv/%: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e ".[$*]"
	@touch $@

.venv/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"needs Python 3.11 or newer, this is {sys.version}"'
	$(PYTHON) -m venv --clear .venv || { rm -rf .venv; exit 1; }
