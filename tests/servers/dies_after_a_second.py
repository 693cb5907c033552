"""Ends one second after its start, whatever it does then; as `dies_at_work.py` before it has answered anybody."""

import os
import sys
import threading
from pathlib import Path

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    if Path(__file__).stem == "dies_at_work":
        threading.Event().wait()
    return answer(perform(options.task))


def die():
    print("no licence any more", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    options = server_options()
    threading.Timer(1, die).start()
    serve(app, options, threaded=True)
