#!/usr/bin/env bash
# Which concurrency strategy should run a long task?
#   ./run_benchmark.sh            installs all requirements and compares all strategies
#   ./run_benchmark.sh HOST:PORT  besieges a running server and shows siege's own report
# For HOST:PORT, USERS (default: 25) and DURATION (default: 60S; or, for example, 2M or 1H) set the load. The exit code is
# 1 if many requests failed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "run_benchmark.sh: $1" >&2; exit 2; }

compare_all() {
  "$here/scripts/setup"
  exec "$here/.venv/bin/python" "$here/bench.py" run
}

besiege() {
  local host=${1%:*} port=${1##*:} users=${USERS:-25} duration=${DURATION:-60S}
  [[ $1 == *:* && $host =~ ^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])$ ]] || fail "'$1' is not an address; expected host:port, such as 127.0.0.1:8000"
  is_port "$port" || fail "'$port' is not a port; expected 1 to 65535"
  [[ $users =~ ^[1-9][0-9]{0,4}$ ]] || fail "USERS='$users' is not a number of users; expected a whole number, such as 25"
  [[ $duration =~ ^[1-9][0-9]*[SMHsmh]?$ ]] || fail "DURATION='$duration' is not a duration; expected a time such as 60S, 2M or 1H"
  duration=$(tr smh SMH <<<"$duration")
  [[ $duration == *[SMH] ]] || duration+=S
  command -v siege >/dev/null || fail "siege is not installed; run $here/scripts/setup to install it"
  answers "$host" "$port" || fail "nothing listens on $1; start a server first: python servers/1_sync.py"

  # Use a separate home and configuration, because the user's siege.conf can change every default.
  home=$(mktemp -d)
  trap 'rm -rf "$home"' EXIT
  mkdir "$home/.siege"
  printf '%s\n' 'verbose = false' 'color = off' 'parser = false' 'logging = false' 'show-logfile = false' \
    'connection = close' 'follow-location = false' 'protocol = HTTP/1.1' 'cache = false' 'limit = 100000' 'failures = 1000000000' 'timeout = 3600' \
    | tee "$home/siegerc" >"$home/.siege/siege.conf"
  # Siege sometimes hangs at the end or after SIGTERM; GNU `timeout`, if it is installed, then kills it.
  local bounded=() siege status=0 limit_s=$((${duration%[SMH]} + 30))
  case $duration in *M) limit_s=$((${duration%M} * 60 + 30)) ;; *H) limit_s=$((${duration%H} * 3600 + 30)) ;; esac
  if timeout --foreground --kill-after=5 1 true >/dev/null 2>&1; then bounded=(timeout --foreground --kill-after=5 "$limit_s"); fi
  # Ctrl-C must not stop tee before siege has printed its report.
  exec 3> >(trap '' INT TERM; exec tee "$home/report" >&2)
  local tee=$!
  HOME=$home "${bounded[@]}" siege --rc="$home/siegerc" -b -c"$users" -t"$duration" "http://$1/" >&3 2>&3 3>&- &
  siege=$!
  trap 'kill -TERM "$siege" 2>/dev/null' INT TERM
  # A signal ends the first wait early; siege then still prints its report.
  wait "$siege" || wait "$siege" || status=$?
  if ((status == 124 || status == 137)); then echo "run_benchmark.sh: siege did not end and was stopped" >&2; fi
  exec 3>&-
  wait "$tee" || true
  check_failures "$home/report" "$users"
}

# check_failures REPORT USERS: fail if many requests failed, or if none was successful
check_failures() {
  local line words good=0 failed=0
  while read -r line; do
    read -ra words <<<"$line"
    case $line in
      "Successful transactions:"*) good=${words[2]} ;;
      "Failed transactions:"*) failed=${words[2]} ;;
    esac
  done <"$1"
  if ((failed <= $2 && good)); then return; fi # at the end, siege drops one request of each user
  if ((good + failed == 0)); then
    echo "run_benchmark.sh: no request was answered during the siege; try a longer DURATION." >&2
    return 1
  fi
  echo "run_benchmark.sh: $failed of $((good + failed)) requests failed; siege's transaction rate counts only the others." >&2
  return 1
}

is_port() { [[ $1 =~ ^[0-9]{1,5}$ ]] && ((10#$1 >= 1 && 10#$1 <= 65535)); }

# answers HOST PORT: succeed if something listens there
answers() { (exec 3<>"/dev/tcp/${1//[\[\]]/}/$2") 2>/dev/null; }

case $# in
  0) compare_all ;;
  1) besiege "$1" ;;
  *) fail "too many arguments; expected none, or one host:port" ;;
esac
