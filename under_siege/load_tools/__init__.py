"""One module for each load tool: its command line and how to parse its output. Nothing is started here."""

from under_siege.load_tools.ab import Ab
from under_siege.load_tools.job_polling import Jobs
from under_siege.load_tools.locust import Locust
from under_siege.load_tools.siege import Siege
from under_siege.load_tools.stressor import Stressor
from under_siege.load_tools.tool import Driver
from under_siege.load_tools.wrk import Wrk

DRIVERS: dict[str, Driver] = {driver.name: driver for driver in (Siege(), Ab(), Wrk(), Locust(), Stressor(), Jobs())}
