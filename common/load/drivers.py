"""The load tools that there are."""

from common.load.driver import Driver
from common.load.siege import Siege

DRIVERS: dict[str, Driver] = {"siege": Siege()}
