"""Always gives another answer than the task."""

from flask import Flask

from common.serving.flask import serve, task_app
from common.serving.options import server_options

app: Flask = task_app()


@app.get("/")
def long_task() -> str:
    return "42"


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
