"""Render the proxy's HTML pages: waiting, limit, error, not found and others.

Each is one document that loads nothing but one small script of the proxy itself, so they work while the
dashboard and the API are away. The Content-Security-Policy allows exactly this style sheet, by its hash, and
that script. Text from people and workspaces is always escaped.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from codehub.domain.waking import ErrorNote, RunningWorkspace, WakeOutcome
from codehub.proxy.answers import Answer
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.interfaces import WorkspaceTarget
from codehub.proxy.pages.tab_script import TAB_SCRIPT, TAB_SCRIPT_NAME, TAB_SCRIPT_PATH
from codehub.proxy.pages.texts import TEXTS, choose_language
from codehub.proxy.settings import ProxySettings

_HERE: Final = Path(__file__).parent
_CSS: Final = (_HERE / "page.css").read_text(encoding="utf-8")
_SCRIPT: Final = (_HERE / "page.js").read_bytes()
_SCRIPT_VERSION: Final = hashlib.sha256(_SCRIPT).hexdigest()[:12]
_SCRIPTS: Final = {"page.js": _SCRIPT, TAB_SCRIPT_NAME: TAB_SCRIPT}
_CSS_HASH: Final = base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_CSS_HASH}'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_LANG_COOKIE: Final = re.compile(rb"(?:^|;)[ ]*codehub_lang=(en|ko)(?:;|$)")
_LOGO: Final = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><path class="rail" d="M5 24h11"/>'
    '<circle class="low" cx="5" cy="24" r="3"/><circle class="mid" cx="16" cy="24" r="3"/>'
    '<path class="rise" d="M18 21.5 25 11"/><circle class="high" cx="26" cy="9" r="5"/></svg>'
)
# Texts that the script shows.
_SCRIPT_TEXTS: Final = (
    "waking",
    "provisioning",
    "restoring",
    "starting",
    "stopping",
    "archiving",
    "running",
    "ready",
    "asleep",
    "waiting_for_node",
    "installing",
    "amount",
    "amount_unknown",
    "left_seconds",
    "left_minutes",
)
_QUEUE_TEXTS: Final = ("queued", "queue_own", "queue_next", "queue_place", "queue_estimate", "swap_failed")
_FROM_ARCHIVE: Final = frozenset({"new", "archived", "archiving", "provisioning", "restoring"})


@dataclass(frozen=True, slots=True)
class PageContext:
    """Language of a page, and whether it is shown on a workspace host."""

    lang: str
    on_workspace_host: bool = False

    @classmethod
    def of(cls, request: RequestHead, *, on_workspace_host: bool = False) -> "PageContext":
        chosen = _LANG_COOKIE.search(request.fields.get(b"cookie", b""))
        accepted = request.fields.get(b"accept-language", b"").decode("latin-1")
        return cls(choose_language(accepted, chosen[1].decode() if chosen else None), on_workspace_host)


class Pages:
    """Builds each page as an ``Answer``."""

    tab_script_path = TAB_SCRIPT_PATH.encode()

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._dashboard = settings.public_url.rstrip("/") + "/"

    def script(self, name: str) -> Answer | None:
        """Serve a script: the pages' own, or the tab's. Cached for ever: its URL carries a hash."""
        content = _SCRIPTS.get(name)
        if content is None:
            return None
        forever = (("Cache-Control", "public, max-age=31536000, immutable"),)
        return Answer(200, content, "text/javascript; charset=utf-8", forever)

    def waiting(self, context: PageContext, target: WorkspaceTarget) -> Answer:
        """Build the page that waits until the workspace's editor answers."""
        text = TEXTS[context.lang]
        names = ("files", "start", "open") if target.status in _FROM_ARCHIVE else ("start", "open")
        steps = "".join(f'<li data-step="{name}">{escape(text["step_" + name])}</li>' for name in names)
        script_texts = {name: text[name] for name in _SCRIPT_TEXTS} | {"title": text["waiting_title"]}
        data = {
            "page": "waiting",
            "status": target.status,
            "progress": "" if target.progress is None else str(target.progress),
            **_sources(context, target),
            "text": json.dumps(script_texts, ensure_ascii=False),
        }
        doing = escape(text.get(target.status, text["waking"]))
        body = f"""<p class="name">{escape(target.name)}</p><h1>{escape(text["waiting_title"])}</h1>
<div class="status"><span id="doing" role="status">{doing}</span>
<output id="percent" aria-live="off"></output></div>
<div class="bar unknown" id="bar" role="progressbar" aria-labelledby="doing"
 aria-valuemin="0" aria-valuemax="100"><span></span></div>
<p class="amount" id="amount" hidden></p>
<ol class="steps">{steps}</ol>
<details class="output" id="output" hidden><summary>{escape(text["output"])}</summary>
<pre tabindex="0" aria-label="{escape(text["output"])}"></pre></details>
<div class="actions" id="again" hidden><a class="button main" href="">{escape(text["wake_again"])}</a></div>
<p class="note">{escape(text["waiting_note"])}</p>"""
        refresh = '<noscript><meta http-equiv="refresh" content="5"></noscript>'
        return self._page(200, context, title="waiting_title", body=body, data=data, extra=refresh)

    def queued(self, context: PageContext, target: WorkspaceTarget) -> Answer:
        """Build the page of a workspace that waits for a running place, as its person asked."""
        text = TEXTS[context.lang]
        names = (*_SCRIPT_TEXTS, *_QUEUE_TEXTS)
        script_texts = (
            {name: text[name] for name in names} | _durations(text) | {"title": text["queue_title"]}
        )
        data = {
            "page": "queued",
            **_sources(context, target),
            "text": json.dumps(script_texts, ensure_ascii=False),
        }
        leave = "" if context.on_workspace_host else self._leave(target, text)
        body = f"""<p class="name">{escape(target.name)}</p><h1>{escape(text["queue_title"])}</h1>
<div class="status"><span id="doing" role="status">{escape(text["queued"])}</span>
<output id="percent" aria-live="off"></output></div>
<div class="bar unknown" role="progressbar" aria-labelledby="doing"><span></span></div>
<p class="note">{escape(text["queue_note"])}</p><p class="message" id="message" role="alert"></p>
<div class="actions">{leave}{self._home(text)}</div>"""
        refresh = '<noscript><meta http-equiv="refresh" content="5"></noscript>'
        return self._page(200, context, title="queue_title", body=body, data=data, extra=refresh)

    def limit(self, context: PageContext, target: WorkspaceTarget, outcome: WakeOutcome) -> Answer:
        """Build the page for a reached limit: put another workspace to sleep for this one, or wait."""
        text = TEXTS[context.lang]
        if outcome.is_global:
            lead = text["limit_global"] if outcome.running else text["limit_none"]
        elif outcome.allowed is None:
            lead = text["limit_own_unknown"]
        else:
            lead = text["limit_own"].format(allowed=outcome.allowed)
        rows = "".join(
            f'<li><span class="name">{escape(item.name)}</span><span class="idle"></span>'
            f"{self._swap(context, target, item)}</li>"
            for item in outcome.running
        )
        listed = (
            f'<ul class="running">{rows}</ul><p class="note">{escape(text["swap_note"])}</p>' if rows else ""
        )
        body = f"""<p class="name">{escape(target.name)}</p><h1>{escape(text["limit_title"])}</h1>
<p>{escape(lead)}</p>{listed}<p class="message" id="message" role="alert"></p>
<div class="actions">{self._wait(context, target)}{self._home(text)}</div>"""
        names = ("swap", "swapping", "swap_failed", "idle_for", "in_use")
        script_texts = {name: text[name] for name in names} | _durations(text)
        data = {
            "page": "limit",
            "api": f"/api/v1/workspaces/{target.id}",
            "text": json.dumps(script_texts, ensure_ascii=False),
        }
        return self._page(502, context, title="limit_title", body=body, data=data)

    def _swap(self, context: PageContext, target: WorkspaceTarget, item: RunningWorkspace) -> str:
        text = TEXTS[context.lang]
        label = escape(text["swap_label"].format(name=item.name))
        if context.on_workspace_host:
            # Pages of a workspace host must not be able to stop other workspaces: link to the dashboard's host.
            href = self._limit_address(target)
            return f'<a class="button" href="{href}" aria-label="{label}">{escape(text["swap"])}</a>'
        return (
            f'<button class="button" type="button" data-instead="{item.id}" aria-label="{label}">'
            f"{escape(text['swap'])}</button>"
        )

    def _wait(self, context: PageContext, target: WorkspaceTarget) -> str:
        words = escape(TEXTS[context.lang]["wait"])
        if context.on_workspace_host:  # nor to take a place in line in the person's name
            return f'<a class="button main" href="{self._limit_address(target)}">{words}</a>'
        return f'<button class="button main" type="button" id="wait">{words}</button>'

    def _leave(self, target: WorkspaceTarget, text: Mapping[str, str]) -> str:
        url = f"/api/v1/workspaces/{target.id}/stop"
        return f'<button class="button" type="button" id="leave" data-url="{url}">{escape(text["leave"])}</button>'

    def _limit_address(self, target: WorkspaceTarget) -> str:
        return escape(f"{self._dashboard}_codehub/limit/{target.id}")

    def _home(self, text: Mapping[str, str]) -> str:
        return f'<a class="button" href="{escape(self._dashboard)}">{escape(text["dashboard"])}</a>'

    def error(self, context: PageContext, target: WorkspaceTarget, note: ErrorNote | None) -> Answer:
        """Build the page for a workspace in ERROR: reason and what to do."""
        text = TEXTS[context.lang]
        message = (note.message if note else "") or text["error_unknown"]
        kind = f" · {note.reason}" if note else ""
        todo = [text["error_todo_dashboard"], text["error_todo_admin"]]
        if note and note.reason == "DataLost":
            todo.insert(0, text["error_todo_data"])
        items = "".join(f"<li>{escape(item)}</li>" for item in todo)
        body = f"""<p class="name">{escape(target.name)}</p><h1>{escape(text["error_title"])}</h1>
<p>{escape(text["error_lead"])}</p>
<div class="reason"><strong>{escape(text["error_reason"] + kind)}</strong>{escape(message)}</div>
<h2>{escape(text["error_todo"])}</h2><ul class="todo">{items}</ul>{self._actions(text)}"""
        return self._page(502, context, title="error_title", body=body)

    def not_found(self, context: PageContext) -> Answer:
        return self._simple(404, context, "not_found", again="")

    def bad_gateway(self, context: PageContext, target: WorkspaceTarget) -> Answer:
        return self._simple(502, context, "bad_gateway", name=target.name)

    def port_closed(self, context: PageContext, target: WorkspaceTarget, port: int, *, status: int) -> Answer:
        return self._simple(status, context, "port", name=target.name, port=port)

    def asleep(self, context: PageContext, target: WorkspaceTarget) -> Answer:
        return self._simple(503, context, "asleep", name=target.name, again="open")

    def visitor_waits(self, context: PageContext, sign_in: str | None) -> Answer:
        """Build a visitor's page while the workspace does not run. ``sign_in``: for its owner."""
        text = TEXTS[context.lang]
        owner = (
            f'<a class="button" href="{escape(sign_in)}">{escape(text["visitor_owner"])}</a>'
            if sign_in
            else ""
        )
        actions = (
            f'<div class="actions"><a class="button main" href="">{escape(text["retry"])}</a>{owner}</div>'
        )
        body = f"<h1>{escape(text['visitor_title'])}</h1><p>{escape(text['visitor_text'])}</p>{actions}"
        return self._page(503, context, title="visitor_title", body=body)

    def link_over(self, context: PageContext) -> Answer:
        """Build the page for a public link that is over, or never was one."""
        text = TEXTS[context.lang]
        body = f"<h1>{escape(text['link_title'])}</h1><p>{escape(text['link_text'])}</p>"
        return self._page(404, context, title="link_title", body=body)

    def foreign_page(self, context: PageContext) -> Answer:
        """Build the page for a refused request.

        ``frame-ancestors`` hides it in foreign frames.

        So only the person can press its button.
        """
        return self._simple(403, context, "foreign", again="open")

    def unavailable(self, context: PageContext) -> Answer:
        return self._simple(503, context, "unavailable")

    def _simple(
        self,
        status: int,
        context: PageContext,
        key: str,
        *,
        name: str = "",
        again: str = "retry",
        port: int = 0,
    ) -> Answer:
        text = TEXTS[context.lang]
        title = text[f"{key}_title"].format(port=port)
        above = f'<p class="name">{escape(name)}</p>' if name else ""
        words = escape(text[f"{key}_text"])
        body = f"{above}<h1>{escape(title)}</h1><p>{words}</p>{self._actions(text, again=again)}"
        return self._page(status, context, title=title, body=body)

    def _actions(self, text: Mapping[str, str], *, again: str = "retry") -> str:
        """Render the buttons. ``again``: text key of the one to the same URL.

        "open" leaves a frame, because only a navigation of a whole tab wakes.
        """
        place = ' target="_top"' if again == "open" else ""
        here = f'<a class="button main" href=""{place}>{escape(text[again])}</a>' if again else ""
        look = "button" if again else "button main"
        home = f'<a class="{look}" href="{escape(self._dashboard)}"{place}>{escape(text["dashboard"])}</a>'
        return f'<div class="actions">{here}{home}</div>'

    def _page(
        self,
        status: int,
        context: PageContext,
        *,
        title: str,
        body: str,
        data: Mapping[str, str] | None = None,
        extra: str = "",
    ) -> Answer:
        shown = escape(TEXTS[context.lang].get(title, title))
        attributes = "".join(f' data-{key}="{escape(value)}"' for key, value in (data or {}).items())
        script = f'<script src="/_codehub/page.js?v={_SCRIPT_VERSION}" defer></script>' if data else ""
        html = f"""<!doctype html>
<html lang="{context.lang}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
<title>{shown} · CodeHub</title><style>{_CSS}</style>{script}{extra}</head>
<body><main{attributes}><div class="brand">{_LOGO}<span>CodeHub</span></div>
<div class="card">{body}</div></main></body></html>
"""
        fields: tuple[tuple[str, str], ...] = (
            ("Content-Security-Policy", _POLICY),
            ("Content-Language", context.lang),
            ("Vary", "Accept-Language, Cookie"),
        )
        if status == 503:
            fields = (*fields, ("Retry-After", str(self._settings.retry_after)))
        return Answer(status, html.encode(), "text/html; charset=utf-8", fields)


def _sources(context: PageContext, target: WorkspaceTarget) -> dict[str, str]:
    """Where the script of a page that waits gets its news from."""
    if context.on_workspace_host:
        return {"events": "/_codehub/events", "logs": "/_codehub/logs", "ready": "/_codehub/ready"}
    api = f"/api/v1/workspaces/{target.id}"
    return {"events": f"{api}/events", "logs": f"{api}/logs", "ready": f"/_codehub/ready/{target.id}"}


def _durations(text: Mapping[str, str]) -> dict[str, str]:
    return {name: text[f"tab_{name}"] for name in ("seconds", "minutes", "hours")}
