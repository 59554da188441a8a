"""Name who asks for a change, for authorization, timeline and audit."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Actor:
    """Who asks, as named in timeline and audit: ``user:ann``, ``ttl``, ``proxy``."""

    label: str
    user_id: UUID | None = None
    is_admin: bool = False

    def may_see(self, owner_id: UUID) -> bool:
        return self.is_admin or self.user_id == owner_id
