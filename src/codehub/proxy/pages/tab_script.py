"""Build the script of a workspace's tab: its texts, its style and ``tab.js`` in one function.

One external file, so that a document's policy can name it. Its address carries a hash of its content.
"""

import hashlib
import json
from pathlib import Path
from typing import Final

from codehub.proxy.pages.texts import TEXTS

_HERE: Final = Path(__file__).parent
_PREFIX: Final = "tab_"


def _build() -> bytes:
    texts = {
        language: {key.removeprefix(_PREFIX): word for key, word in words.items() if key.startswith(_PREFIX)}
        for language, words in TEXTS.items()
    }
    page, own = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "tab.css"))
    style = page.replace(":root", ":host") + own  # the pages' colours and buttons, inside a shadow root
    constants = f"const TEXTS = {_literal(texts)};\nconst STYLE = {_literal(style)};\n"
    script = (_HERE / "tab.js").read_text(encoding="utf-8")
    return f'(() => {{\n"use strict";\n{constants}{script}}})();\n'.encode()


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


TAB_SCRIPT: Final = _build()
TAB_SCRIPT_NAME: Final = "tab.js"
TAB_SCRIPT_PATH: Final = f"/_codehub/{TAB_SCRIPT_NAME}?v={hashlib.sha256(TAB_SCRIPT).hexdigest()[:12]}"
