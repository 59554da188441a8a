"""Activity of a workspace, and what happens to it next."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from codehub.domain.busy import BusyWith
from codehub.domain.limits import LimitKind
from codehub.domain.states import DesiredState
from codehub.domain.ttl import AwakeBecause


class NextChange(TypedDict):
    """The next automatic change, unless the workspace is used before."""

    to: DesiredState
    at: datetime
    why: str


class Work(TypedDict):
    """What a workspace does by itself."""

    what: Annotated[
        BusyWith,
        Field(
            description="kernel: a notebook executes; job: a program in the foreground of a terminal, or detached; "
            "cpu: its processes compute; ide: the image says so; unknown: it could not be asked"
        ),
    ]
    name: Annotated[str, Field(description="Of the job's program, or as the image says; may be empty")]
    until: Annotated[datetime, Field(description="When it stops counting, unless a person comes")]


class Awake(TypedDict):
    """Why a running workspace is not put to sleep now."""

    because: Annotated[
        AwakeBecause,
        Field(
            description="never: its idle time is 0; kept: a person asked for it; open: in a window, touched within "
            "the limit; busy: it works by itself; used: a short time ago; unknown: activity cannot be read"
        ),
    ]
    since: Annotated[
        datetime | None,
        Field(
            description="open and used: when a person last caused something, at the latest; busy: since when it is so"
        ),
    ]
    work: Annotated[Work | None, Field(description="busy: what it does")]


class QueuePlace(TypedDict):
    """Where a workspace stands among those that wait for a running place."""

    place: Annotated[int, Field(ge=1, description="1: the next one")]
    limit: Annotated[
        LimitKind,
        Field(description="limit_user: waits for one of its owner's own places; limit_global: for any place"),
    ]
    since: datetime
    estimated_seconds: Annotated[
        int | None,
        Field(
            ge=0, description="A rough estimate of the wait, by how long others have been running; null: none"
        ),
    ]


class Activity(TypedDict):
    """Connections and last use. Null: unknown at the moment."""

    connections: int | None
    last_seen_at: datetime | None
    kind: Annotated[str | None, Field(description="http, websocket or start")]
    awake: Annotated[Awake | None, Field(description="Null: it does not run, or is about to sleep")]
    next: NextChange | None
    queue: Annotated[QueuePlace | None, Field(description="Null: it does not wait for a running place")]
