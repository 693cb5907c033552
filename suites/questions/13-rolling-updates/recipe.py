"""Run uvicorn so that it still accepts requests for 5 s after SIGTERM, while its readiness probe fails."""

import os
import signal
import threading
from types import FrameType

import uvicorn
from app import app

DRAIN_S = 5  # longer than the load balancer takes to notice: interval × failure threshold


class DrainingServer(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGTERM or app.state.is_draining:
            super().handle_exit(sig, frame)
            return
        app.state.is_draining = True  # /health returns 503 from now on
        threading.Timer(DRAIN_S, super().handle_exit, (sig, frame)).start()


if __name__ == "__main__":
    host, port = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8000"))
    DrainingServer(uvicorn.Config(app, host=host, port=port, access_log=False, timeout_graceful_shutdown=20)).run()
