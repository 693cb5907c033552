#!/usr/bin/env bash
# Install the requirements of the tests and run the tests. Arguments go to pytest: ./run_tests.sh -k contract
# `./run_tests.sh --all` adds the tests in tests/extended, slow variants, other Pythons, and scripts/break_promises.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
all="" processes=6
for argument; do
  if [[ $argument == --all ]]; then all=--all; fi
done
if (($#)) && [[ ! $all ]]; then processes=2; fi # for a few tests, starting more processes takes longer than it saves
scripts/setup test $all
export PATH=$PWD/.venv/bin:$PATH
unset PYTHONDONTWRITEBYTECODE # container images set it, and then every process would compile all modules again
ruff check --quiet .
ruff format --quiet --check . || { echo "run_tests.sh: some files are not formatted; run: .venv/bin/ruff format" >&2; exit 1; }
shellcheck run_benchmark.sh run_tests.sh scripts/setup .ci/run
if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml; fi

# Tests of tests/unit and tests/live run beside each other and beside mypy, in more processes than CPUs, because many
# tests wait. Tests of tests/measuring run afterwards, one at a time.
beside=0 measuring=0 types=0 promises=0
mypy_output=$(mktemp)
UNDER_SIEGE_CPU_COSTS=$(mktemp) # both calls of pytest append to this file
export UNDER_SIEGE_CPU_COSTS
mypy --no-error-summary >"$mypy_output" 2>&1 &
mypy=$!
trap 'kill "$mypy" 2>/dev/null || true; rm -f "$mypy_output" "$UNDER_SIEGE_CPU_COSTS"' EXIT
python -m pytest --numprocesses $processes --dist loadscope --no-loadscope-reorder --measuring no "$@" || beside=$?
wait "$mypy" || types=$?
cat "$mypy_output"
if ((types)); then exit "$types"; fi
python -m pytest --measuring only "$@" || measuring=$?
if [[ $all ]]; then python scripts/break_promises.py || promises=$?; fi
python tests/support/cpu_costs.py
nothing_selected=5 # pytest's exit code if no test matches the arguments; a failure only if both parts end with it
if ((beside == nothing_selected)); then exit "$measuring"; fi
if ((measuring == nothing_selected)); then measuring=0; fi
exit $((beside ? beside : measuring ? measuring : promises))
