#!/usr/bin/env bash
# Sets up what is needed and runs every test. Arguments go to pytest: ./run_tests.sh -k contract
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup test
export PATH=$PWD/.venv/bin:$PATH
unset PYTHONDONTWRITEBYTECODE # images of containers set it, and each process that runs tests would compile them all anew
ruff check --quiet .
ruff format --quiet --check . || { echo "run_tests.sh: some files are not formatted; run: .venv/bin/ruff format" >&2; exit 1; }
shellcheck run_benchmark.sh run_tests.sh scripts/setup .ci/run
if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml; fi

# What waits or computes first, beside each other and mypy; then what measures, and so wants the machine for itself.
# More processes than most machines have CPUs, because a good part of these tests is waiting.
# A test that judges figures and fails is no failure yet: it is run once more at the end, with nothing beside it.
beside=0 alone=0 types=0
told=$(mktemp) again=$(mktemp)
mypy --no-error-summary >"$told" 2>&1 &
mypy=$!
trap 'kill "$mypy" 2>/dev/null || true; rm -f "$told" "$again"' EXIT
python -m pytest --numprocesses 7 --dist loadscope --no-loadscope-reorder --measuring no --again="$again" "$@" ||
  beside=$?
wait "$mypy" || types=$?
trap 'rm -f "$told" "$again"' EXIT
cat "$told"
if ((types)); then exit "$types"; fi
python -m pytest --measuring only --again="$again" "$@" || alone=$?
if [[ -s $again ]]; then python -m pytest "@$again"; fi
nothing_selected=5 # as pytest says it; no failure, unless it is so twice
if ((beside == nothing_selected)); then exit "$alone"; fi
if ((alone == nothing_selected)); then exit "$beside"; fi
exit $((beside > alone ? beside : alone))
