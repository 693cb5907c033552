"""Start processes instead of containers: nginx as load balancer, and two services, each with a worker and a socket."""

import signal
import subprocess
import sys

folder, config = sys.argv[1:]
commands = [["sh", "start.sh", "--no-access-log", "--uds", f"{folder}/{name}.sock"] for name in ("first", "second")]
commands.append(["nginx", "-p", folder, "-c", config])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
running = []
try:
    running += [subprocess.Popen(command) for command in commands]
    running[-1].wait()
finally:
    for process in running:
        process.terminate()
    for process in running:
        process.wait()
