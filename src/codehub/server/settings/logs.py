"""Settings of the log."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from codehub.server.settings.variables import Group, lower, variable


class LogFormat(StrEnum):
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(Group):
    format: Annotated[LogFormat, BeforeValidator(lower)] | None = variable(
        "LOG_FORMAT", meaning="console or json", shown="console on a terminal, json otherwise"
    )
    level: Annotated[LogLevel, BeforeValidator(lower)] = variable(
        "LOG_LEVEL", LogLevel.INFO, meaning="debug, info, warning or error"
    )
