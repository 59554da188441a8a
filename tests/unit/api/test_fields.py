"""What may be a name: anything a person can see, in any script, and nothing they cannot."""

import pytest
from pydantic import TypeAdapter, ValidationError

from codehub.api.schemas.fields import Name

NAMES = TypeAdapter(Name)


@pytest.mark.parametrize(
    "name",
    [
        "thesis",
        "논문",
        "می‌خواهم",  # a non-joiner between letters
        "क्‍ष",  # a joiner
        "👩‍💻 work",  # joined emoji
        "☂️",  # with a variation selector
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # the flag of Scotland
        "葛\U000e0100",  # an ideographic variant
        "عربي‏",  # a direction mark
        "a b",
    ],
)
def test_names_that_can_be_seen(name: str) -> None:
    assert NAMES.validate_python(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "\u200b",  # zero-width space
        "\u200d\u200d",  # joiners that join nothing
        "\u200e",
        "\ufeff",  # byte order mark
        "\u2060\u2063",
        "\u00ad",  # soft hyphen
        "\u3164",  # a Hangul filler counts as a letter
        "\u115f\u1160",
        "\uffa0",
        "\u2800",  # a Braille pattern without dots counts as a symbol
        "\ufe0f",
        "\u034f",
        "\U000e0041\U000e0042",  # tags that tag nothing
        "\U000e0001",
        "\U0001d173",
        " \u200b ",
    ],
)
def test_names_of_nothing_visible(name: str) -> None:
    with pytest.raises(ValidationError):
        NAMES.validate_python(name)


@pytest.mark.parametrize("hidden", ["\u200b", "\ufeff", "\u2060", "\u3164", "\u00ad", "\U000e0041"])
def test_names_that_look_like_another(hidden: str) -> None:
    with pytest.raises(ValidationError, match="invisible"):
        NAMES.validate_python(f"the{hidden}sis")
