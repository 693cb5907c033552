#!/bin/sh
# The command of the container. `exec`: uvicorn itself gets the SIGTERM of a rolling update.
# To run several workers in one container, set WEB_CONCURRENCY, for example to 2.
exec uvicorn \
    --host "${HOST:-0.0.0.0}" --port "${PORT:-8000}" \
    --timeout-graceful-shutdown 20 \
    "$@" app:app
