# Two commands are enough: `make book` builds the site, `make test` runs every test.
# The first use makes a virtual environment in .venv; it is renewed when the requirements change.

# The supported Pythons, newest first, as pyproject.toml lists them
PYTHONS := $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml | sort -t. -k2 -nr)
OLDEST := $(lastword $(PYTHONS))
# The interpreter that makes the environment: the first of these that is supported, or `make PYTHON=... book`.
PYTHON ?= $(shell for p in python3 $(PYTHONS:%=python%) python; do \
	$$p -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in sys.argv)' $(PYTHONS) 2>/dev/null && echo $$p && exit; \
	done; echo python3)
VENV   ?= .venv
PORT   ?= 8000
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
UV     := $(VENV)/bin/uv
COLAB  ?= .venv-colab
PEERS  ?= .venv-peers
OLD    ?= .venv-oldest
DEVICE ?= cpu
SITE   := _build/html
# The tools of js/, the widgets' sources: asked for where npm is, since the bundles that it builds are in the repository.
JS     := $(if $(shell command -v npm),js/node_modules/.package-lock.json)
NODE   := $(PY) -m tools.node
TSC    := $(NODE) node_modules/typescript/bin/tsc
BIOME  := $(NODE) node_modules/@biomejs/biome/bin/biome check

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Dozens of processes import PyTorch: what one of them has compiled the others read, or each takes five seconds more.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help book draft serve slides widgets pdf screenshots browser test test-package cuda test-gpu test-portable test-colab test-oldest \
	notebooks replicate benchmark mutants lock dist test-dist fresh release-notes linkcheck pythons lint format clean distclean

help: ## Show this list
	@echo "make <target>, where <target> is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-17s%s\n", $$1, $$2}'

book: $(STAMP) ## Build the site into _build/html
	@jupyter-book build . -W -n --keep-going \
		|| { echo; echo "make book: the build stopped at the warnings and errors printed above; each names its file."; exit 1; }
	@echo; echo "The site is ready. Open $(SITE)/index.html in a browser, or run: make serve"

draft: $(STAMP) ## Build single pages in seconds, with their links checked: make draft PAGES="book/why.md notebooks/..."
	@$(PY) -m tools.draft $(PAGES)

serve: book ## Build the site and serve it at http://localhost:8000 (another port: make serve PORT=8080)
	@echo "Serving the site at http://localhost:$(PORT)/ (stop with Ctrl-C)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory $(SITE) $(PORT)

slides: book ## Build the site with a deck of slides for each chapter; they need no network
	@echo; echo "The slides are ready; open one in a browser:"; ls $(SITE)/slides/*.html

widgets: $(STAMP) js/node_modules/.package-lock.json ## Build the widgets' bundles from js/, after a change there; it needs npm
	@$(NODE) build.mjs

screenshots: book ## Photograph every page and widget at three sizes, light and dark, into _build/screenshots
	@$(PY) -m tools.screenshots

pdf: book ## Print the chapters, tagged and with bookmarks, into _build/book.pdf; it takes some minutes and needs Chromium (make browser)
	@$(PY) -m tools.pdf

browser: $(STAMP) ## Install a Chromium for the tests of the site (one on the path will do as well)
	playwright install --with-deps chromium

test: $(STAMP) $(JS) ## Run every test: the package, the notebooks' rules, every notebook, the site
	@$(PY) -m pytest

test-package: $(STAMP) ## Run every test that needs neither the built site nor a browser
	@$(PY) -m pytest -m "not site"

test-portable: $(STAMP) ## Run every notebook as other processors would, under five numeric profiles; more than an hour
	@$(PY) -m tools.profiles

cuda: $(STAMP) ## Check that PyTorch can compute on an NVIDIA GPU
	@$(PY) -c 'import torch; torch.ones(1, device="cuda"); print(torch.__version__, torch.cuda.get_device_name())' \
		|| { echo "make cuda: this needs an NVIDIA GPU with its driver, and a PyTorch that is built for CUDA (on Linux, make"; \
		     echo "the environment without PIP_EXTRA_INDEX_URL: rm -rf $(VENV); make cuda)."; exit 1; }

test-gpu: cuda ## Run every test with the notebooks and the package on an NVIDIA GPU
	@$(PY) -m pytest --device cuda

# In Colab's own image its interpreter is the one to try; elsewhere one with its versions is made.
test-colab: ## Run every chapter alone as Colab would: its versions, an empty folder, the package not installed
	@if python3 -c 'import google.colab' 2>/dev/null; then python3 -m tools.colab_run; else \
		$(MAKE) --no-print-directory $(STAMP) $(COLAB)/.installed && $(PY) -m tools.colab_run --python $(COLAB)/bin/python; fi

test-oldest: $(OLD)/.installed ## Run the package's tests with the oldest versions that pyproject.toml admits
	@$(OLD)/bin/python -m pytest -W default tests/core attention_tutorial classroom/attention_classroom

notebooks: $(STAMP) ## Execute every chapter again, in place, and what changed under two other numeric profiles as well
	@$(PY) -m tools.notebooks

replicate: $(STAMP) ## Measure claims on fresh random numbers where a chapter's code is another; some chapters: CHAPTERS=notebooks/01_bottleneck.ipynb
	@$(PY) -m tools.replicate $(CHAPTERS)

benchmark: $(STAMP) ## Time the package beside torch and other packages, for the book's page on speed (PEERS=no, DEVICE=cuda)
	@$(if $(filter no,$(PEERS)),$(PY),$(MAKE) --no-print-directory $(PEERS)/.installed && $(PEERS)/bin/python) -m benchmarks --device $(DEVICE)

mutants: $(STAMP) ## Change the package's maths in a thousand places, one at a time: which changes does no test notice? (hours)
	@$(MAKE) --no-print-directory $(PEERS)/.installed && $(PEERS)/bin/mutmut run --max-children 1; $(PEERS)/bin/mutmut results

lock: $(UV) ## Write constraints.txt anew, after a change to requirements.txt: versions and hashes of all that is installed
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(UV) pip compile --quiet --universal --python-version $(OLDEST) --fork-strategy fewest \
		--generate-hashes --output-file constraints.txt requirements.txt

dist: $(STAMP) ## Build the package and the classroom in dist/: for each a source archive and a wheel
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist
	@$(PY) -m build --no-isolation --outdir dist classroom

test-dist: $(STAMP) ## Test what is in dist/, installed as by one who downloads it
	@ATTENTION_TUTORIAL_DIST=dist $(PY) -m pytest tests/project/test_wheel.py

fresh: ## Time `make book` and `make test` in a new clone, with an empty home and no caches
	@tools/fresh_machine.sh

release-notes: $(STAMP) ## Check that a tag may become a release, and print its notes (TAG=v1.2.3)
	@$(PY) -m tools.release $(TAG)

linkcheck: $(STAMP) ## Ask every outside link of the site whether it still answers
	@jupyter-book build . -n --keep-going --builder linkcheck

pythons: ## Write the Pythons that the classifiers of pyproject.toml name into all other files that name them
	perl -pi -e 's/^(requires-python = ).*/$${1}">=$(OLDEST)"/' pyproject.toml classroom/pyproject.toml
	perl -pi -e 's/( python: \[).*\]/$${1}$(foreach p,$(filter-out $(OLDEST),$(PYTHONS)),"$(p)",) &oldest "$(OLDEST)"]/' .github/workflows/tests.yml

lint: $(STAMP) $(JS) ## Check style (ruff, biome), types (mypy, tsc), spelling (codespell) and workflows (zizmor)
	ruff check
	ruff format --check
	mypy --python-version $(OLDEST)
	@if [ -d js/node_modules ]; then echo "$(TSC)"; $(TSC) && echo "$(BIOME)" && $(BIOME); \
	elif [ "$$CI" = true ]; then echo "make lint: js/ must be checked with CI=true, and npm was not found"; exit 1; \
	else echo "Left out, since npm was not found: types (tsc) and style (biome) of js/"; fi
	codespell
	zizmor --offline --persona=auditor --no-progress .github

format: $(STAMP) $(JS) ## Put code and notebooks into the common format
	ruff check --fix
	ruff format
	@if [ -d js/node_modules ]; then $(BIOME) --write; fi

clean: ## Remove what the build and the tests made; the environment stays
	rm -rf _build mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info build dist
	find attention_tutorial classroom book tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the environments as well
	rm -rf $(VENV) $(COLAB) $(PEERS) $(OLD) js/node_modules

# Nothing is installed but files whose hashes constraints.txt has, and nothing is built. Only torch may come from where
# pip's settings say (PyTorch's own index of builds for CPUs, say): pip installs it, by itself. uv, which reads
# none of these settings, installs the rest, and at last what this build of torch needs. `make lock` writes the hashes.
TORCH := $(shell grep -o '^torch==[0-9.]*' requirements.txt)
TORCH_ALONE := -m pip install --quiet --no-deps --no-compile
LOCKED := $(UV) pip install $(addprefix --default-index ,$(PIP_INDEX_URL)) --constraint constraints.txt --python
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split("."))))' $(OLDEST) \
		|| { echo "Python $(OLDEST) or newer is needed ($(PYTHONS) are tested); say which: make PYTHON=/path/to/python$(OLDEST) book"; exit 1; }
	@echo "Making the environment in $(VENV) with $$($(PYTHON) --version); the first time takes a few minutes."
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "No virtual environment could be made; on Debian or Ubuntu first run: sudo apt install python3-venv"; exit 1; }
	@sed -n '/^uv==/,/[^\\]$$/p' constraints.txt > $(VENV)/uv.txt
	@$(PY) -m pip install --quiet --no-deps --require-hashes --requirement $(VENV)/uv.txt

$(STAMP): requirements.txt constraints.txt pyproject.toml classroom/pyproject.toml attention_tutorial/models/published.toml | $(UV)
	@{ $(PY) $(TORCH_ALONE) $(TORCH) \
		&& grep -v '^torch==' requirements.txt | $(LOCKED) $(PY) --no-build --require-hashes --requirement - \
		&& $(LOCKED) $(PY) --no-build $(TORCH); } \
		|| { echo; echo "The requirements could not be installed (see above). If the network failed, run the same command again; if a"; \
		     echo "package has no file for this Python, try another one: make distclean; make PYTHON=python$(OLDEST) book; if"; \
		     echo "requirements.txt was edited, first run: make lock"; exit 1; }
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable . --editable classroom \
		|| { echo "The package itself could not be installed (see above): check pyproject.toml."; exit 1; }
	@$(PY) -m tools.models $(LOCKED) $(PY)
	@touch $@

# What is only compared with, and the tool that makes mutants, on top of the environment, whose torch it takes.
$(PEERS)/.installed: $(STAMP) benchmarks/requirements.txt
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PY) -c 'import site; print(site.getsitepackages()[0])' > "$$($(PEERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/below.pth"
	@echo torch | $(LOCKED) $(PEERS)/bin/python --no-build --requirement benchmarks/requirements.txt --excludes -
	@touch $@

# npm writes this file last. Without a network the tests and checks of js/ are left out, and say so; never with CI=true.
js/node_modules/.package-lock.json: js/package-lock.json
	@command -v npm >/dev/null || { echo "The widgets are built with npm's packages; install Node (https://nodejs.org), which has npm."; exit 1; }
	@(cd js && npm ci --ignore-scripts --no-audit --no-fund) \
		|| { [ "$$CI" != true ] && echo "npm could not install js/package-lock.json (see above): js/ is not checked."; }

# Colab's own Python; where that is not to be had, the versions of its packages are tried with another.
COLABS := python$(shell sed -n 's/.*for Python \(3\.[0-9]*\).*/\1/p' tools/colab_versions.txt)
COLAB_PYTHON ?= $(shell $(COLABS) -c '' 2>/dev/null && echo $(COLABS) || echo $(PYTHON))
$(COLAB)/.installed: tools/colab_versions.txt | $(UV)
	@$(COLAB_PYTHON) -m venv --clear $(COLAB)
	@$(COLAB)/bin/python $(TORCH_ALONE) $$(grep '^torch==' $<)
	@$(UV) pip install --python $(COLAB)/bin/python --constraint $< torch numpy # and what they need
	@$(UV) pip install --python $(COLAB)/bin/python --no-deps --requirement $<
	@touch $@

# What the package computes and draws with, as old as pyproject.toml lets it be; the tests' own tools as always. Where
# the oldest Python is not to be had, another is tried.
OLDEST_PYTHON ?= $(shell python$(OLDEST) -c '' 2>/dev/null && echo python$(OLDEST) || echo $(PYTHON))
$(OLD)/.installed: pyproject.toml requirements.txt | $(UV)
	@$(OLDEST_PYTHON) -m venv --clear $(OLD)
	@$(UV) pip compile --quiet --no-deps --resolution lowest-direct --python $(OLD)/bin/python --output-file $(OLD)/oldest.txt pyproject.toml
	@$(OLD)/bin/python $(TORCH_ALONE) $$(grep '^torch==' $(OLD)/oldest.txt)
	@$(UV) pip install --python $(OLD)/bin/python --requirement requirements.txt --overrides $(OLD)/oldest.txt
	@touch $@
