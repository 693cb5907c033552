#!/bin/sh
# Start the service in a container. With `exec`, uvicorn itself receives the SIGTERM of a rolling update.
# To run 2 workers in one container, set WEB_CONCURRENCY=2.
exec uvicorn \
    --host "${HOST:-0.0.0.0}" --port "${PORT:-8000}" \
    --timeout-graceful-shutdown 20 \
    "$@" app:app
