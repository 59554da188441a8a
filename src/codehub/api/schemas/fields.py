"""Validate text fields: names, descriptions, references, passwords.

PostgreSQL cannot store U+0000, and a workspace's name must not control a terminal, so control characters are
refused. Letters of every script, emoji and their joiners are allowed. Names are compared for uniqueness, so they
are normalised to NFC, stripped of outer white space, and refused with invisible characters: two names that look
the same are equal, and each has something visible.
"""

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

NAME_LENGTH = 64
TEXT_LENGTH = 4096
TAG_LENGTH = 32
MAX_TAGS = 8
MAX_TTL_SECONDS = 10 * 365 * 86400

# Bidi overrides and isolates reorder the text around a name: "exe.txt" for "txt.exe". Plain marks are allowed.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Default ignorable code points of Unicode, and blanks that are classed as letters or symbols.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Some of these are needed between letters and in emoji: joiners, direction marks, variation selectors, and the
# tags that make the flag of a region (black flag, tags, end).
_USEFUL = re.compile(
    "[\u034f\u061c\u180b-\u180f\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    "|\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
)
_REFUSED_IN_NAMES = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})


def _tidy(value: object) -> object:
    """Normalise before the length is checked, so that the limit applies to what is stored."""
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode text") from None
    return unicodedata.normalize("NFC", value).strip()


def _check_name(value: str) -> str:
    if any(unicodedata.category(each) in _REFUSED_IN_NAMES or each in _REORDERING for each in value):
        raise PydanticCustomError("control_characters", "control characters are not allowed")
    if _INVISIBLE.search(_USEFUL.sub("", value)):
        raise PydanticCustomError("invisible_characters", "invisible characters are not allowed")
    if not _INVISIBLE.sub("", value).strip():
        raise PydanticCustomError("nothing_visible", "at least one visible character is needed")
    return value


def _check_tag(value: str) -> str:
    """A tag is written after `#`, in lists with commas and as one argument of a command: neither may be in it."""
    if "," in value or "#" in value:
        raise PydanticCustomError("tag_characters", "no comma and no #")
    return _check_name(" ".join(value.split()))


def _check_tags(value: list[str]) -> list[str]:
    """Once each, whatever the case of its letters; the first way of writing it stays."""
    found = {each.casefold(): each for each in reversed(value)}
    return [each for each in dict.fromkeys(value) if found[each.casefold()] == each]


def _check_label(value: str) -> str:
    return _check_name(value) if value else value


def _check_text(value: str) -> str:
    if any(unicodedata.category(each) == "Cc" and each not in "\t\n\r" for each in value):
        raise PydanticCustomError("control_characters", "control characters are not allowed")
    return value


def _check_secret(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("control_characters", "the character U+0000 is not allowed")
    return value


Name = Annotated[
    str, Field(min_length=1, max_length=NAME_LENGTH), BeforeValidator(_tidy), AfterValidator(_check_name)
]
Tag = Annotated[
    str, Field(min_length=1, max_length=TAG_LENGTH), BeforeValidator(_tidy), AfterValidator(_check_tag)
]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS), AfterValidator(_check_tags)]
Label = Annotated[str, Field(max_length=NAME_LENGTH), BeforeValidator(_tidy), AfterValidator(_check_label)]
Text = Annotated[str, Field(max_length=TEXT_LENGTH), AfterValidator(_check_text)]
Fragment = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_text)]
ImageRef = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_check_name)]
Username = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_check_name)]
GivenPassword = Annotated[str, Field(max_length=1024), AfterValidator(_check_secret)]
NewPassword = Annotated[str, Field(min_length=8, max_length=1024), AfterValidator(_check_secret)]
TtlSeconds = Annotated[int, Field(ge=0, le=MAX_TTL_SECONDS, strict=True)]
