"""The pages: languages, escaping, and a policy that allows only what they use."""

import base64
import hashlib
import re
from uuid import uuid4

import pytest

from codehub.domain.waking import ErrorNote, Phase, RunningWorkspace, WakeOutcome, WakeResult
from codehub.proxy.interfaces import WorkspaceTarget
from codehub.proxy.pages import PageContext, Pages
from codehub.proxy.pages.texts import TEXTS, choose_language
from codehub.proxy.settings import ProxySettings, UnixAddress

EVIL = "\"><script>alert(1)</script>'&"
TARGET = WorkspaceTarget(
    id=uuid4(), owner_id=uuid4(), name=EVIL, phase=Phase.ASLEEP, status="archived", progress=None
)
PAGES = Pages(ProxySettings(api=UnixAddress("/x"), internal_secret=b""))
LIMIT = WakeOutcome(WakeResult.LIMIT, (RunningWorkspace(uuid4(), EVIL),), allowed=2)


def everything(lang: str) -> dict[str, str]:
    context = PageContext(lang)
    answers = {
        "waiting": PAGES.waiting(context, TARGET),
        "limit": PAGES.limit(context, TARGET, LIMIT),
        "error": PAGES.error(context, TARGET, ErrorNote(EVIL, EVIL)),
        "not found": PAGES.not_found(context),
        "bad gateway": PAGES.bad_gateway(context, TARGET),
        "port": PAGES.port_closed(context, TARGET, 3000, status=404),
        "unavailable": PAGES.unavailable(context),
    }
    return {name: answer.body.decode() for name, answer in answers.items()}


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_nothing_anybody_wrote_becomes_markup(lang: str) -> None:
    for name, html in everything(lang).items():
        assert "alert(1)</script>" not in html, name
        assert html.count("<script") <= 1, name
        assert f'<html lang="{lang}">' in html


def test_both_languages_say_the_same_things() -> None:
    assert TEXTS["en"].keys() == TEXTS["ko"].keys()
    for key in TEXTS["en"]:
        placeholders = re.findall(r"{\w+}", TEXTS["en"][key])
        assert sorted(placeholders) == sorted(re.findall(r"{\w+}", TEXTS["ko"][key])), key


def test_the_policy_allows_this_style_and_no_inline_script() -> None:
    answer = PAGES.waiting(PageContext("en"), TARGET)
    html = answer.body.decode()
    policy = dict(answer.fields)["Content-Security-Policy"]
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert re.search(r"<script(?! src=)", html) is None
    assert re.search(r"\son\w+=|\sstyle=", html) is None


@pytest.mark.parametrize(
    ("accepted", "chosen", "lang"),
    [
        ("", None, "en"),
        ("ko-KR,ko;q=0.9,en;q=0.8", None, "ko"),
        ("en-US,en;q=0.9,ko;q=0.8", None, "en"),
        ("fr;q=1.0, ko;q=0.5, en;q=0.4", None, "ko"),
        ("ko;q=0, en;q=0.1", None, "en"),
        ("ko;q=abc", None, "en"),
        ("en", "ko", "ko"),
        ("ko", "fr", "ko"),
    ],
)
def test_language(accepted: str, chosen: str | None, lang: str) -> None:
    assert choose_language(accepted, chosen) == lang
