"""nginx, which serves a static text and is faster than any load tool. Usage: nginx_static.py PORT."""

import os
import sys
import tempfile
from pathlib import Path

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
    listen 127.0.0.1:{port};
    location = / {{ return 200 "ok"; }}
    location = /ping {{ return 200 "pong"; }}
  }}
}}
"""
KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

folder = tempfile.mkdtemp(prefix="nginx-")
folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in KINDS)
(Path(folder) / "nginx.conf").write_text(CONF.format(port=sys.argv[1], folders=folders))
os.execvp("nginx", ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"])  # noqa: S606 (there is no shell)
