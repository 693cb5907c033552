"""gunicorn --config gunicorn_conf.py app:app"""

worker_class = "uvicorn_worker.UvicornWorker"
workers = 2
preload_app = True  # import the application once; a new worker is a fork, so it starts quickly
timeout = 60  # replace a worker whose event loop is blocked for this many seconds
graceful_timeout = 30  # how many seconds a worker may take to finish its requests when it is stopped
max_requests = 10_000  # replace a worker after this many requests, before a memory leak gets it killed
max_requests_jitter = 1_000  # but don't replace all workers at the same time
