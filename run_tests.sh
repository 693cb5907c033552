#!/usr/bin/env bash
# Sets up what is needed and runs every test. Arguments go to pytest: ./run_tests.sh -k contract
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup test
export PATH=$PWD/.venv/bin:$PATH
ruff check --quiet .
ruff format --quiet --check . || { echo "run_tests.sh: some files are not formatted; run: .venv/bin/ruff format" >&2; exit 1; }
mypy --no-error-summary
shellcheck run_benchmark.sh run_tests.sh scripts/setup .ci/run
exec python -m pytest "$@"
