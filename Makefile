# `make demo` and `make test` set everything up on a machine that has only python3 and make.
PYTHON ?= python3
CHROMIUM ?= /usr/bin/chromium
# Each test file in one of at most four processes; tests keep torch to one thread.
PYTEST = -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
PIP = -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test test-all test-gpu test-browser test-recipes screenshot reference docs chromium check dist audit benchmark mutants clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) --editable '.[dev]'
	touch $@

# torchvision's wheel is a CUDA build: beside a CPU build of torch it must come without its dependencies
# (they would replace torch), and tests/conftest.py declares the two operators it then misses. The libraries
# that policies are exported to, likewise: what they need is named here.
EXPORTS = timm huggingface_hub tqdm kornia kornia_rs albumentations albucore opencv-python-headless simsimd stringzilla
.venv-tv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-tv
	.venv-tv/bin/python $(PIP) --editable '.[dev,ray,figures,tensorboard]'
	.venv-tv/bin/python $(PIP) --no-deps torchvision $(EXPORTS)
	touch $@

# All libraries of the recipes; transformers needs a newer huggingface_hub than the other lanes have.
.venv-recipes/installed: pyproject.toml constraints.txt examples/requirements.txt
	$(PYTHON) -m venv .venv-recipes
	grep -v huggingface_hub constraints.txt | cat - examples/requirements.txt > .venv-recipes/constraints.txt
	.venv-recipes/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-recipes/constraints.txt \
	  --editable '.[dev,ray,figures,tensorboard]' $$(grep -v -e '^#' -e ultralytics examples/requirements.txt)
	.venv-recipes/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-recipes/constraints.txt \
	  --no-deps torchvision $(EXPORTS) ultralytics
	touch $@

.venv/browser: .venv/installed
	.venv/bin/python $(PIP) --editable '.[dev,browser]'
	touch $@

demo: .venv/installed  ## search, evaluate and judge on 200 of the embedded digits: about two minutes on 2 cores
	.venv/bin/slackaug demo

test: .venv/installed .venv-tv/installed  ## install, run every unmarked test, then those with torchvision, Ray and others
	.venv/bin/python $(PYTEST) -m "not slow and not gpu and not data and not torchvision and not ray and not exports and not figures and not browser and not recipes"
	.venv-tv/bin/python $(PYTEST) -m "(torchvision or ray or exports or figures) and not slow and not gpu and not data"

test-all: .venv/installed .venv-tv/installed test-browser test-recipes  ## all tests, slow ones and those on shared data too
	.venv/bin/python -m pytest -m "not torchvision and not ray and not exports and not figures and not browser and not recipes"
	.venv-tv/bin/python -m pytest -m "torchvision or ray or exports or figures"

test-gpu: .venv/installed  ## the tests that need a GPU, three files at a time: most of their time is compilation
	.venv/bin/python -m pytest --numprocesses 3 --dist loadfile -m gpu

test-browser: chromium .venv/browser  ## the report in Chromium (apt-get install chromium)
	CHROMIUM="$(CHROMIUM)" .venv/bin/python -m pytest -m browser tests/report/test_browser.py

test-recipes: .venv-recipes/installed  ## every file of examples/, with the libraries it is for
	.venv-recipes/bin/python $(PYTEST) --dist load -m "recipes" tests/examples tests/runs/test_loggers.py

screenshot: chromium .venv/browser  ## docs/report.png, of the run that `make demo` has left
	.venv/bin/python docs/screenshot.py runs/demo/report.html docs/report.png "$(CHROMIUM)"

reference: .venv/installed  ## write the pages of docs/reference that come from the code
	.venv/bin/python docs/reference/make_pages.py

# The extra `docs` alone: the site needs neither torch nor slackaug.
DOCS_EXTRA = "import tomllib as t; print(*t.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])"
.venv-docs/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) $$(.venv-docs/bin/python -c $(DOCS_EXTRA))
	touch $@

docs: .venv-docs/installed  ## build the documentation as a site, in site/; a warning is an error
	.venv-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going -c docs . site

chromium:
	@test -x "$(CHROMIUM)" || { echo "no Chromium at $(CHROMIUM): apt-get install -y chromium, or CHROMIUM=PATH" >&2; exit 1; }

check: .venv/installed  ## ruff, mypy --strict, and hadolint where it has a build
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	test ! -x .venv/bin/hadolint || .venv/bin/hadolint Dockerfile

dist: .venv/installed  ## build the sdist and the wheel, check them, and run the demo from the wheel alone
	rm -rf dist
	.venv/bin/python -m build --quiet
	.venv/bin/python -m pytest tests/test_wheel.py

audit: .venv/installed  ## ask for known weaknesses of the versions in constraints.txt (needs pypi.org)
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	.venv-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

benchmark: .venv-tv/installed  ## speed of the augmentation and of the report on this machine
	.venv-tv/bin/python research/augment.py
	.venv-tv/bin/python research/report.py

.venv/mutants: .venv/installed
	.venv/bin/python $(PIP) --editable '.[dev,mutants]'
	touch $@

mutants: .venv/mutants  ## do the tests notice small changes of the core? An hour on 2 cores; FILES="..." for some
	OMP_NUM_THREADS=1 .venv/bin/python research/mutate.py $(FILES)

clean:  ## remove the environments and caches
	rm -rf .venv .venv-tv .venv-recipes .venv-audit .venv-docs build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
