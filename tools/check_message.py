"""Check a commit's subject: ``area: what``, at most 72 characters, no full stop. A commit-msg hook.

``python -m tools.check_message FILE`` ends with 1 and a sentence if it is not so.
"""

import re
import sys
from pathlib import Path

LONGEST = 72
_SUBJECT = re.compile(r"[a-z][a-z0-9 ,/_-]*: \S.*[^.\s]")
_GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def complaint(message: str) -> str | None:
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_GENERATED):
        return None
    if len(subject) > LONGEST:
        return f"The subject has {len(subject)} characters, {LONGEST} at most: {subject}"
    if _SUBJECT.fullmatch(subject) is None:
        return f"The subject is to be `area: what`, without a full stop: {subject}"
    if len(lines) > 1 and lines[1].strip():
        return "An empty line comes after the subject."
    return None


def main(arguments: list[str]) -> int:
    problem = complaint(Path(arguments[0]).read_text(encoding="utf-8"))
    if problem is not None:
        sys.stderr.write(problem + "\n")
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
