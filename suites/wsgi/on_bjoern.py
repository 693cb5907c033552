"""The application under bjoern, which has no command of its own."""

import sys

import bjoern
from app import app

bjoern.run(app, sys.argv[1], int(sys.argv[2]))
