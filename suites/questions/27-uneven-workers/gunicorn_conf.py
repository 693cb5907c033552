"""Run: pip install gunicorn; gunicorn --config gunicorn_conf.py app:app"""

worker_class = "asgi"
workers = 2  # one per CPU
reuse_port = True  # a socket for each worker: the kernel distributes connections among them
