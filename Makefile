# hiveacid: `make demo` shows the main job on real data, `make test` passes the tests. `make help` lists the rest.

SF ?= 0.1
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARCHIVE := $(VENV)/spark.jsa
SPARK_VERSIONS ?= 3.5 4.0 4.3
PYTEST := $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal
UNIT := not spark and not java and not postgres and not s3 and not long and not timing and not slow
BENCH ?=
INTEROP ?=

export TZ := UTC
# a run starts hundreds of Python processes, each of which would compile the package for itself
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv java demo unit test test-changed test-all test-connect check accept interop bench bench-peers bench-growth bench-txn bench-past bench-stream size sim soak soak-cluster test-spark-versions clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP)  ## .venv with hiveacid and all that the other targets need

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || { python=$$(scripts/find-python) && "$$python" -m venv $(VENV); }
	@echo "installing hiveacid and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(ARCHIVE): $(STAMP)
	@scripts/require-java
	@echo "writing $(ARCHIVE), the classes that each JVM of the tests begins with"
	@$(BIN)/python scripts/archive_classes.py $(ARCHIVE) 2>$(ARCHIVE).log || cat $(ARCHIVE).log

java:
	@scripts/require-java

demo: java $(STAMP)  ## orders and lineitem of TPC-H end to end (SF=1 for ten times the rows, STREAM=1 for 30 seconds of streams, too)
	$(BIN)/hiveacid demo --scale $(SF) $(if $(STREAM),--stream 30)

unit: $(STAMP)  ## tests that need no Java and no database server: seconds
	$(PYTEST) -m "$(UNIT)" tests/unit

test: java $(STAMP)  ## tests, in two processes: minutes
	$(PYTEST) --durations=25 -m "not long and not timing"

test-changed: java $(ARCHIVE)  ## these, and the long ones that cover what changed since main: what .ci/run runs
	$(PYTEST) --durations=25 -m "not timing" --changed "$$($(BIN)/python scripts/changed.py)"

test-all: java $(ARCHIVE)  ## all tests, long histories, writers killed at random: before an issue is called resolved
	$(PYTEST) --hypothesis-profile search
	$(MAKE) sim
	$(MAKE) sim DATABASE=postgres RUNS=50
	$(MAKE) soak SECONDS=60
	$(BIN)/python -m tests.soak.queries --kills 5

test-connect: java $(STAMP)  ## the Spark tests over Spark Connect, all that do not look into the JVM
	HIVEACID_TEST_CONNECT=1 $(BIN)/python -m pytest -q tests/spark

check: $(STAMP)  ## lint, format, types, layers and the other laws of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

size: $(STAMP)  ## statements, imports, functions and files by room; tests : source
	@$(BIN)/python scripts/size.py

# What tests give JVMs: statements over few rows end before the second compiler's work pays off, which takes a third of the
# time of both cores; without it the JVM has room for 48 MB of code, which a run of the tests fills. Classes are read from
# an archive, where there is one that this JVM takes.
accept interop $(ARCHIVE): export SPARK_SUBMIT_OPTS ?= -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:MetaspaceSize=256m -XX:+UseSerialGC -Xmn400m -Xlog:cds=off -Xlog:cds+dynamic=off -XX:SharedArchiveFile="$(CURDIR)/$(ARCHIVE)"

accept: java $(STAMP)  ## tables and SQL answers of real Hive, recorded in tests/data
	$(BIN)/python -m tests.acceptance.run

interop: java $(STAMP)  ## what we write, real Hive reads, and the other way (INTEROP='--version 3.1', INTEROP=--ci)
	$(BIN)/python -m tests.interop.run $(INTEROP)

bench: java $(STAMP)  ## speed and memory against flat ORC and, where they are installed, the peers (BENCH='--scale 0.1 --only load,clean')
	$(BIN)/python -m benchmarks.run $(BENCH)

bench-peers: java $(STAMP)  ## install Delta Lake and Iceberg, then the same beside them
	$(BIN)/python -m benchmarks.peers $(BENCH)

bench-growth: $(STAMP)  ## time, CPU and memory by rows, partitions, deltas ... (BENCH='--only rows --large --spark')
	$(BIN)/python -m benchmarks.growth $(BENCH)

bench-txn: $(STAMP)  ## commits by 1 to 16 writers, by transactions kept and left open, on both databases
	$(BIN)/python -m benchmarks.growth --only writers,kept,open $(BENCH)

bench-past: $(STAMP)  ## time travel, changes, history, tags, PURGE at 6 M rows, each with its goal (BENCH='--only feed')
	$(BIN)/python -m benchmarks.past $(BENCH)

sim: $(STAMP)  ## seeded histories of writers, readers, compactors, deaths, faults (SEED=1 RUNS=1000 DATABASE=sqlite)
	$(BIN)/python -m tests.simulation.run --seed $(or $(SEED),1) --runs $(or $(RUNS),1000) --database $(or $(DATABASE),sqlite)

soak: $(STAMP)  ## 8 writer processes killed at random, on both databases (SECONDS=300)
	$(BIN)/python -m tests.soak.run --seconds $(or $(SECONDS),300)

soak-cluster: java $(STAMP)  ## a cluster of two workers on S3 and HDFS, parts of it killed (CLUSTER='--short --place hdfs')
	$(BIN)/python -m tests.soak.cluster $(CLUSTER)

bench-stream: java $(STAMP)  ## streams: rows, commits, visibility, micro-batches (BENCH='--part commits' or '--part upsert --seconds 600')
	$(BIN)/python -m benchmarks.streaming $(BENCH)

test-spark-versions: java $(STAMP)  ## the Spark tests on each supported PySpark, one environment each
	@for version in $(SPARK_VERSIONS); do scripts/test-spark-version $$version || exit 1; done

clean:  ## environments, caches, demo and benchmark data
	rm -rf .venv .venv-spark-* build dist demo-data bench-data spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
