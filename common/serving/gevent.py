"""Flask on gevent's server: starting and stopping. The rest is in flask.py."""

import gevent
from flask import Flask
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer

from common.serving.listening import announce, listening_socket
from common.serving.options import Options
from common.serving.stopping import GRACE_S, on_stop_signal


def serve(app: Flask, options: Options) -> None:
    """Serves the application with a greenlet for each connection until a signal says stop."""
    app.config["OPTIONS"] = options
    listener = listening_socket(options)
    greenlets = Pool()  # without a pool of its own the server would not wait for what it has begun
    server = WSGIServer(listener, app, spawn=greenlets, log=None, error_log=None)
    on_stop_signal(lambda: gevent.spawn(server.stop, GRACE_S))
    server.start()
    announce(options, listener)
    server.serve_forever()
