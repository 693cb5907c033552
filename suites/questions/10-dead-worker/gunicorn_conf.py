"""pip install gunicorn uvicorn-worker; gunicorn --config gunicorn_conf.py app:app"""

worker_class = "uvicorn_worker.UvicornWorker"
workers = 2  # one for each CPU
preload_app = True  # fork workers, which starts them quickly; open no connections and start no threads on import
timeout = 60  # replace a worker that starts, or whose event loop is blocked, for longer than this many seconds
graceful_timeout = 20  # seconds to finish requests after SIGTERM; less than the grace period of Kubernetes (30 s)
# max_requests = 10_000  # only if you have a leak: replace a worker before it is killed; this may lose some requests
# max_requests_jitter = 1_000  # but don't replace all workers at the same time
