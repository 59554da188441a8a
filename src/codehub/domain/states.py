"""The four state axes of a workspace, and the states of a container.

Each axis has one writer: the services layer for people and policies (``DesiredState``), the Observer
(``ObservedStatus``, ``HealthStatus``), the Reconciler (``Operation``). No axis is derived from another in the
database, so a stale value on one axis is never taken for a change on another.
"""

from enum import StrEnum


class DesiredState(StrEnum):
    """The state a person or a policy wants. Written by the services layer alone."""

    PENDING = "PENDING"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


class ObservedStatus(StrEnum):
    """The state the Observer last observed.

    ERROR is a verdict (``HealthStatus``), not an observation.
    """

    PENDING = "PENDING"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"
    DELETED = "DELETED"


class HealthStatus(StrEnum):
    OK = "OK"
    ERROR = "ERROR"


class Operation(StrEnum):
    """The one step in flight, or NONE."""

    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    DELETING = "DELETING"


class ContainerState(StrEnum):
    """State of a container, as a runtime observes it."""

    NONE = "none"
    RUNNING = "running"
    DEAD = "dead"


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


STORAGE_OPERATIONS = frozenset({Operation.RESTORING, Operation.ARCHIVING})
"""Operations whose action is a storage job: they have slots of their own, and a timeout since the last
progress."""

LEVEL: dict[str, int] = {"PENDING": 0, "STANDBY": 10, "RUNNING": 20}
"""The order of states. A step only ever goes to a neighbour."""
