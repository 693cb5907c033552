"""Start the shop service on the port given in a settings file."""

import configparser
import sys

settings = configparser.ConfigParser()
settings.read(sys.argv[1])
sys.argv[1:] = [settings["server"]["port"], "plain"]
import app  # noqa: E402, F401 (the import starts the service)
