"""Static files from Flask behind WhiteNoise. X-Served-By shows which one answered, and if WhiteNoise is compiled."""

import os
from pathlib import Path

import flask

TREE = os.environ["TREE"]

flask_app = flask.Flask(__name__, static_folder=None)


@flask_app.get("/static/<path:name>")
def file(name):
    response = flask.send_from_directory(TREE, name)
    response.headers["X-Served-By"] = "flask"
    return response


@flask_app.get("/ping")
def ping():
    return "pong"


def with_whitenoise(prefix):
    """Return WhiteNoise, which serves the files below this prefix and passes other requests to Flask."""
    from whitenoise import WhiteNoise, base, media_types, responders, string_utils

    compiled = {Path(module.__file__).suffix == ".so" for module in (base, media_types, responders, string_utils)}
    how = {frozenset({True}): "compiled", frozenset({False}): "pure"}.get(frozenset(compiled), "half compiled")

    def add_header(headers, path, url):  # noqa: ARG001 (WhiteNoise passes all three)
        headers["X-Served-By"] = f"whitenoise, {how}"

    return WhiteNoise(flask_app, root=TREE, prefix=prefix, add_headers_function=add_header)


def whitenoise():
    """Return the intended setup."""
    return with_whitenoise("static/")


def published():
    """Return the published setup: the requested paths are not below the prefix, so Flask serves the files."""
    return with_whitenoise("assets/")
