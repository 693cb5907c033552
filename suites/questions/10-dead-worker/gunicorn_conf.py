"""Run: pip install gunicorn uvicorn-worker; gunicorn --config gunicorn_conf.py app:app"""

worker_class = "uvicorn_worker.UvicornWorker"
workers = 2  # one per CPU
preload_app = True  # forked workers start quickly; don't open connections or start threads when the app is imported
timeout = 60  # seconds after which a worker is replaced if it is still starting or its event loop is blocked
graceful_timeout = 20  # seconds to finish requests after SIGTERM; less than the grace period of Kubernetes (30 s)
# max_requests = 10_000  # only for a memory leak: replaces workers before they grow too large; may lose some requests
# max_requests_jitter = 1_000  # so that workers are not all replaced at the same time
