"""The load tools that there are."""

from common.load.ab import Ab
from common.load.driver import Driver
from common.load.jobs import Jobs
from common.load.locust import Locust
from common.load.siege import Siege
from common.load.stressor import Stressor
from common.load.wrk import Wrk

DRIVERS: dict[str, Driver] = {driver.name: driver for driver in (Siege(), Ab(), Wrk(), Locust(), Stressor(), Jobs())}
