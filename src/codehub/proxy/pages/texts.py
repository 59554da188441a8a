"""Load the texts of the pages (English, Korean) and choose a language."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("en", "ko")


def _load(language: str) -> Mapping[str, str]:
    texts: Mapping[str, str] = json.loads((Path(__file__).parent / f"{language}.json").read_text("utf-8"))
    return texts


TEXTS: Final[Mapping[str, Mapping[str, str]]] = {language: _load(language) for language in LANGUAGES}


def choose_language(accept_language: str, chosen: str | None) -> str:
    """Choose by the cookie ``codehub_lang``, else by ``Accept-Language``."""
    if chosen in LANGUAGES:
        return chosen
    ranked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept_language.split(",")):
        tag, _, parameter = part.strip().partition(";")
        weight = parameter.strip().removeprefix("q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        ranked.append((-quality, place, tag.strip().lower().partition("-")[0]))
    return next((tag for quality, _, tag in sorted(ranked) if tag in LANGUAGES and quality < 0), "en")
