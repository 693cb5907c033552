"""Import the application once, and fork the workers afterwards: they share what the import has loaded."""

preload_app = True
worker_class = "uvicorn_worker.UvicornWorker"
workers = 4
