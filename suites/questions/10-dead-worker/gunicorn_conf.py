"""gunicorn --config gunicorn_conf.py app:app"""

worker_class = "uvicorn_worker.UvicornWorker"
workers = 2  # one for each CPU
preload_app = True  # fork workers, which starts them quickly; open no connections and start no threads on import
timeout = 60  # replace a worker whose event loop is blocked for this many seconds
graceful_timeout = 30  # how many seconds a worker may take to finish its requests when it is stopped
max_requests = 10_000  # replace a worker before a memory leak gets it killed; this may lose some requests
max_requests_jitter = 1_000  # but don't replace all workers at the same time
