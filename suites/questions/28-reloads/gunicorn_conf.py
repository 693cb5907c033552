"""Run: pip install gunicorn; gunicorn --config gunicorn_conf.py app:app; reload it with kill -HUP."""

worker_class = "asgi"
workers = 2
graceful_timeout = 20  # seconds to finish requests in the old workers
max_requests = 10_000  # only for a memory leak
max_requests_jitter = 5_000  # half of it, so that workers are not all replaced at the same time
