"""Refusals of use cases, each with a stable ``code`` for API, CLI and dashboard."""

from collections.abc import Sequence
from uuid import UUID

from codehub.domain.errors import CodeHubError
from codehub.domain.limits import LimitKind, Usage
from codehub.store.workspaces.records import WorkspaceRecord


class NotFound(CodeHubError):
    """It does not exist, or belongs to another user: both get the same answer."""

    code = "not_found"

    def __init__(self, what: str = "workspace") -> None:
        super().__init__(f"There is no such {what}.")


class WorkspaceDeleted(CodeHubError):
    """Deleted workspaces cannot be changed."""

    code = "deleted"

    def __init__(self, workspace_id: UUID) -> None:
        super().__init__("Deleted workspaces cannot be changed.")
        self.workspace_id = workspace_id


class WantedArchived(CodeHubError):
    """A stop would restore an archived workspace just to put it to standby: refused."""

    code = "archived"

    def __init__(self) -> None:
        super().__init__("The workspace is archived or on its way there; there is nothing to stop.")


class HomeNotGivenUp(CodeHubError):
    """A home is given up only while its node is unavailable, for the archive the person was shown."""

    code = "home_not_given_up"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was changed: the home is not on a node that is unavailable, or that is not its last archive."
        )


class ArchiveNotRestorable(CodeHubError):
    """The workspace cannot return to this archive now. Says why."""

    code = "archive_not_restorable"

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was changed. {why}")


class SnapshotRefused(CodeHubError):
    """No snapshot can be made, or kept, now. Says why."""

    code = "snapshot_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was changed. {why}")


class NotCopyable(CodeHubError):
    """No copy can be opened of this. Says why."""

    code = "not_copyable"

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was created. {why}")


class NothingToAdopt(CodeHubError):
    """There is nothing without a workspace under this id. Says why."""

    code = "nothing_to_adopt"

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was changed. {why}")


class NotForOwners(CodeHubError):
    """Only an administrator lifts this error: its cause is outside the home."""

    code = "forbidden"

    def __init__(self) -> None:
        super().__init__("Only an administrator may lift this error.")


class UnknownImage(CodeHubError):
    """No image of that name is configured."""

    code = "unknown_image"

    def __init__(self, image_ref: str, known: Sequence[str]) -> None:
        super().__init__(f"There is no image {image_ref!r}. Known: {', '.join(known) or 'none'}.")


class LimitReached(CodeHubError):
    """No running place is left. Carries the limit, its usage, and what uses it."""

    def __init__(self, kind: LimitKind, usage: Usage, running: Sequence[WorkspaceRecord]) -> None:
        subject = "You run" if kind is LimitKind.USER else "All together run"
        super().__init__(f"{subject} {usage.used} of {usage.allowed} workspaces that may run at a time.")
        self.code = kind.value
        self.kind = kind
        self.usage = usage
        self.running = tuple(running)
