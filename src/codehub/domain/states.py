"""The four axes of a workspace, and how its three resources map onto them.

Each axis has one writer: people say what they want (``DesiredState``), the Observer reports (``ObservedStatus``,
``HealthStatus``), the Reconciler acts (``Operation``). Nobody derives one axis from another in the
database, so a stale value on one axis can never masquerade as news on another.
"""

from enum import StrEnum


class DesiredState(StrEnum):
    """What a person or a policy wants. Written by the services layer alone."""

    PENDING = "PENDING"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


class ObservedStatus(StrEnum):
    """What the Observer last saw. ERROR is a verdict, never an observation, so it is not here."""

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
    """What a runtime sees of a container."""

    NONE = "none"
    RUNNING = "running"
    DEAD = "dead"


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


STORAGE_OPERATIONS = frozenset({Operation.RESTORING, Operation.ARCHIVING})
"""Operations whose action is a storage job: they have slots and a progress-based limit of their own."""

LEVEL: dict[str, int] = {"PENDING": 0, "STANDBY": 10, "RUNNING": 20}
"""The order of states. A step only ever goes to a neighbour (contract 5)."""
