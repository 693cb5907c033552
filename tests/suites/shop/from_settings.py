"""Starts the service from a settings file, as many servers are."""

import configparser
import sys

settings = configparser.ConfigParser()
settings.read(sys.argv[1])
sys.argv[1:] = [settings["server"]["port"], "plain"]
import app  # noqa: E402, F401 (it serves)
