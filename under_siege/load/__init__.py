"""Load tools: the module of each tool builds its command line and parses its output, but starts no process."""

from under_siege.load.ab import Ab
from under_siege.load.client import Client
from under_siege.load.jobs import JobsTool
from under_siege.load.locust import Locust
from under_siege.load.siege import Siege
from under_siege.load.stressor import Stressor
from under_siege.load.tool import Driver
from under_siege.load.wrk import Wrk

DRIVERS: dict[str, Driver] = {
    driver.name: driver for driver in (Siege(), Ab(), Wrk(), Locust(), Stressor(), Client(), JobsTool())
}
