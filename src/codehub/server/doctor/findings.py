"""Findings of ``codehub doctor``: one line each, with what to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    OK = "ok"
    NOTE = "note"  # works, but a person may want to know
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    what: str
    severity: Severity
    detail: str
    advice: str = ""

    def as_json(self) -> Mapping[str, str]:
        return {
            "what": self.what,
            "verdict": self.severity.value,
            "detail": self.detail,
            "advice": self.advice,
        }
