"""Run the application under bjoern, which has no command-line program."""

import sys

import bjoern
from app import app

bjoern.run(app, sys.argv[1], int(sys.argv[2]))
