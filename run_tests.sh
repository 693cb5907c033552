#!/usr/bin/env bash
# Install the requirements of the tests and run all tests. Arguments go to pytest: ./run_tests.sh -k contract
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup test
export PATH=$PWD/.venv/bin:$PATH
unset PYTHONDONTWRITEBYTECODE # container images set it, and then every process would compile all modules again
ruff check --quiet .
ruff format --quiet --check . || { echo "run_tests.sh: some files are not formatted; run: .venv/bin/ruff format" >&2; exit 1; }
shellcheck run_benchmark.sh run_tests.sh scripts/setup .ci/run
if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml; fi

# Most tests run in parallel, beside mypy, and in more processes than CPUs, because many tests wait. Tests that measure
# run afterwards, one at a time. A test of real servers that fails in the parallel part is repeated at the end.
parallel=0 alone=0 types=0
mypy_output=$(mktemp) again=$(mktemp)
mypy --no-error-summary >"$mypy_output" 2>&1 &
mypy=$!
trap 'kill "$mypy" 2>/dev/null || true; rm -f "$mypy_output" "$again"' EXIT
python -m pytest --numprocesses 7 --dist loadscope --no-loadscope-reorder --measuring no --again="$again" "$@" ||
  parallel=$?
wait "$mypy" || types=$?
trap 'rm -f "$mypy_output" "$again"' EXIT
cat "$mypy_output"
if ((types)); then exit "$types"; fi
python -m pytest --measuring only --again="$again" "$@" || alone=$?
if [[ -s $again ]]; then python -m pytest "@$again"; fi
nothing_selected=5 # pytest's exit code if no test matches the arguments; a failure only if both parts end with it
if ((parallel == nothing_selected)); then exit "$alone"; fi
if ((alone == nothing_selected)); then exit "$parallel"; fi
exit $((parallel > alone ? parallel : alone))
