"""The rules that exist for safety. The product has them all; the harness can leave one out.

A rule whose absence breaks nothing would be superstition: ``test_rules.py`` demands a counter-example for
each of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    tokens: bool = True
    """A runtime refuses a token lower than the highest it has seen, and a newer one ends an older job."""

    trust: bool = True
    """A volume that is not the whole home is neither started on nor archived."""

    clear_marker: bool = True
    """Claiming RESTORING clears the marker in the same statement."""

    freshness: bool = True
    """Only a look begun after the action ended completes an operation."""

    fenced_writes: bool = True
    """A leader writes only in its own term, and only for the operation it knows."""

    stop_first: bool = True
    """ARCHIVING, RESTORING and DELETING begin with stop: no container may hold the volume."""

    commit_before_delete: bool = True
    """``archive_key`` is committed before the volume goes."""

    volume_mark: bool = True
    """A home that was completed here and is gone is a loss, never a fresh start."""

    archive_lookup: bool = True
    """PROVISIONING refuses where an archive exists: that would be an empty home beside the real one."""

    confirm_gone: bool = True
    """Before an operation goes terminal, its storage job is confirmed gone."""

    mark_what_is_there: bool = True
    """A whole home that is seen and not marked is marked: before it is used, and also while it sleeps."""

    deleted_at_rest: bool = True
    """DELETED is final only once no operation is in flight: until then the row is looked at on."""

    accept_loss_when_told: bool = True
    """Recovery clears the volume mark only where the error said that the volume vanished."""

    look_after_recovery: bool = True
    """Only a look begun after a recovery turns health back to OK: what vanished may have come back."""

    untrust_what_is_given_up: bool = True
    """A person who gives a home up for its archive takes the trust from the volume, in the same statement."""

    restart_untrusted: bool = True
    """A failed execution of RESTORING takes the marker away before the action runs again."""

    archive_before_return: bool = True
    """A person returns to an earlier archive only once the present home is archived, or where there is none."""

    snapshot_once: bool = True
    """The commit of an archive meets the wish for a snapshot in the same statement."""

    return_once: bool = True
    """Switching to the chosen archive clears the wish in the same statement."""
