"""nginx, which serves the task's result as static text and is faster than any load tool."""

import os
import tempfile
from pathlib import Path

from common.options import server_options
from common.task import perform

CONF = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  default_type text/plain;
  {folders}
  server {{
    listen {host}:{port};
    location = / {{ return 200 "{answer}"; }}
    location = /ping {{ return 200 "pong"; }}
  }}
}}
"""
KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

if __name__ == "__main__":
    options = server_options()
    folder = tempfile.mkdtemp(prefix="nginx-")
    folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in KINDS)
    answer = perform(options.task).answer
    conf = CONF.format(host=options.host, port=options.port, answer=answer, folders=folders)
    (Path(folder) / "nginx.conf").write_text(conf)
    os.execvp("nginx", ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"])  # noqa: S606 (there is no shell)
