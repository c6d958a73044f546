# Two commands are enough: `make book` builds the site, `make test` runs every test.
# The first use makes a virtual environment in .venv; it is renewed when the requirements change.

# The interpreter that makes the environment: the first of these that is 3.11 to 3.13, or `make PYTHON=... book`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && exit; done; \
	echo python3)
VENV   ?= .venv
PORT   ?= 8000
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
SITE   := _build/html

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help book serve test test-portable notebooks lint format clean distclean

help: ## Show this list
	@echo "make <target>, where <target> is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-17s%s\n", $$1, $$2}'

book: $(STAMP) ## Build the site into _build/html
	@jupyter-book build . -W -n --keep-going \
		|| { echo; echo "make book: the build stopped at the warnings and errors printed above; each names its file."; exit 1; }
	@echo; echo "The site is ready. Open $(SITE)/index.html in a browser, or run: make serve"

serve: book ## Build the site and serve it at http://localhost:8000 (another port: make serve PORT=8080)
	@echo "Serving the site at http://localhost:$(PORT)/ (stop with Ctrl-C)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory $(SITE) $(PORT)

test: $(STAMP) ## Run every test: the package, the notebooks' rules, every notebook, the site
	@$(PY) -m pytest

test-portable: $(STAMP) ## Run the notebooks as other processors would: without vector instructions, then on one thread
	ATEN_CPU_CAPABILITY=default $(PY) -m pytest notebooks
	MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 $(PY) -m pytest notebooks

notebooks: $(STAMP) ## Execute every chapter again, in place; files stay the same where nothing changed
	@$(PY) tools/notebooks.py

lint: $(STAMP) ## Check style (ruff), types (mypy) and spelling (codespell)
	ruff check
	ruff format --check
	mypy
	codespell

format: $(STAMP) ## Put code and notebooks into the common format
	ruff check --fix
	ruff format

clean: ## Remove what the build and the tests made; the environment stays
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info build dist
	find attention_tutorial book tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the environment as well
	rm -rf $(VENV)

$(STAMP): requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed (3.11 to 3.13 are tested); say which: make PYTHON=/path/to/python3.12 book"; exit 1; }
	@echo "Making the environment in $(VENV) with $$($(PYTHON) --version); the first time takes a few minutes."
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "No virtual environment could be made; on Debian or Ubuntu first run: sudo apt install python3-venv"; exit 1; }
	@$(PY) -m pip install --requirement requirements.txt --constraint constraints.txt \
		|| { echo; echo "pip could not install the requirements (see above). If the network failed, run the same command again;"; \
		     echo "if a package has no file for this Python, try another one: make distclean; make PYTHON=python3.12 book"; exit 1; }
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable . \
		|| { echo "The package itself could not be installed (see above): check pyproject.toml."; exit 1; }
	@touch $@
