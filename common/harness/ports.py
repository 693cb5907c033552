"""Free ports of this machine, claimed so that two runs at the same time do not take the same."""

import contextlib
import socket

from common.harness.failures import CaseFailedError
from common.harness.ours import HOST


def claimed_port(first: int) -> socket.socket:
    """Claims the first port from `first` on that nobody listens on, until the socket that this returns is closed.

    The socket is the UDP port of the same number: no server feels that, another run on this machine does and passes on,
    and the claim ends with this process, however it ends.
    """
    for port in range(first, 65536):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind((HOST, port))
            if port_is_free(port):
                return claim
        claim.close()
    raise CaseFailedError("no_port", f"every port from {first} on is taken")


def port_is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
