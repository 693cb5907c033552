"""The socket that a server listens on, the same for every server, and the line that says so."""

import os
import socket

from common.contract import BACKLOG
from common.serving.options import Options, quit_with


def listening_socket(options: Options) -> socket.socket:
    """A socket that listens where the options say; ends the server with one line if that can't be."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = _reason(error)
        quit_with(f"can't listen on {options.host} port {options.port}: {reason}; try another --host or --port")
    listener.setblocking(False)
    return listener


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror) or not isinstance(error, OSError) or not error.errno:
        return getattr(error, "strerror", None) or str(error)
    return os.strerror(error.errno)  # without what Python adds to it: the address again


def announce(options: Options, listener: socket.socket) -> None:
    """The only line that a server prints."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]
    print(f"{options.name}: {options.task} on http://{host}:{port}/", flush=True)  # noqa: T201
