"""Every page of the dashboard, in every light, width and language, against the fake API; and axe on each.

    npm run build && python dev/screenshots.py [--out DIR] [--only TEXT] [--no-images]

Exits 1 if axe finds a violation, the console reports an error (a refused inline style, for example) or a page
scrolls sideways. ``axe_violations`` is what end-to-end tests reuse.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WEB = Path(__file__).resolve().parent.parent
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"

Setup = Callable[[Page], None]


def axe_violations(page: Page) -> list[str]:
    """What axe has against this page, one line each. Evaluated from outside: the page's policy stays."""
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{v['id']}: {v['help']} ({n['target'][0]}: {n.get('failureSummary', '')[:300]})"
        for v in result["violations"]
        for n in v["nodes"]
    ]


def card(page: Page, name: str) -> str:
    return page.locator(f"article[aria-label='{name}']").get_attribute("data-workspace") or ""


def open_workspace(name: str) -> Setup:
    def setup(page: Page) -> None:
        page.goto(f"{page.url.split('/', 3)[0]}//{page.url.split('/', 3)[2]}/workspaces/{card(page, name)}")
        page.locator(".timeline__item").first.wait_for()

    return setup


def open_create(page: Page) -> None:
    page.locator(".page__head .button--primary, .first .button--primary").first.click()
    page.locator("dialog .duration").first.wait_for()


def open_menu(page: Page) -> None:
    page.locator("article[aria-label='atlas'] [aria-haspopup=menu]").click()
    page.get_by_role("menuitem").first.wait_for()


def open_delete(page: Page) -> None:
    open_menu(page)
    page.locator(".menu__item--danger").click()
    page.locator("dialog").wait_for()


def hit_limit(page: Page) -> None:
    page.locator("article[aria-label='cassini'] .card__actions button").click()
    page.locator("dialog .lines").wait_for()


def as_rows(page: Page) -> None:
    page.get_by_label(re.compile("^(Rows|줄)$")).check()
    page.locator(".row").first.wait_for()


def select_some(page: Page) -> None:
    as_rows(page)
    boxes = page.locator(".row__choose input")
    boxes.nth(1).click()
    boxes.nth(5).click(modifiers=["Shift"])
    page.locator(".selection").wait_for()


def ask_for_several(page: Page) -> None:
    select_some(page)
    page.locator(".selection .button").nth(1).click()
    page.locator("dialog").wait_for()


def fail_for_several(page: Page) -> None:
    select_some(page)
    page.request.post("/dev/fail?code=unavailable")
    page.locator(".selection .button").nth(1).click()
    page.locator("dialog .button--primary").click()
    page.locator(".bulk__failures").wait_for()


def show_keys(page: Page) -> None:
    page.keyboard.press("?")
    page.locator(".keys").wait_for()


def many(page: Page) -> None:
    page.request.post("/dev/many?owner=newcomer")
    page.goto("/")
    page.locator(".card").first.wait_for()
    as_rows(page)
    page.evaluate("scrollTo(0, 4000)")


def search_nothing(page: Page) -> None:
    page.locator("input[type=search]").fill("zzz")


def lose_connection(page: Page) -> None:
    page.request.post("/dev/lost?on=1")
    page.locator(".banner").wait_for()


def create_token(page: Page) -> None:
    page.locator(".page__head .button--primary").click()
    page.locator("dialog input").first.fill("laptop")
    page.locator("dialog .button--primary").click()
    page.locator(".secret").wait_for()


def add_private_key(page: Page) -> None:
    page.locator(".ssh-keys__head .button").click()
    page.locator("dialog textarea").fill("-----BEGIN OPENSSH PRIVATE KEY-----")
    page.locator("dialog input").fill("laptop")
    page.locator("dialog .button--primary").click()
    page.locator("dialog [aria-invalid=true]").first.wait_for()


def add_user(page: Page) -> None:
    page.locator(".stack__actions .button--primary").first.click()
    page.locator("dialog").wait_for()


def fail(path: str) -> Setup:
    def setup(page: Page) -> None:
        page.request.post("/dev/fail?code=unavailable")
        page.goto(path)
        page.locator(".failed").first.wait_for()

    return setup


def wrong_password(page: Page) -> None:
    page.locator("input").nth(0).fill("ann")
    page.locator("input").nth(1).fill("wrong")
    page.locator(".button--wide").click()
    page.locator(".form-error").wait_for()


# name, who is signed in, path, what must be there, what to do first
SCENES: list[tuple[str, str | None, str, str, Setup | None]] = [
    ("sign-in", None, "/", ".sign-in", None),
    ("sign-in-wrong", None, "/", ".sign-in", wrong_password),
    ("list", "ann", "/", ".card", None),
    ("list-menu", "ann", "/", ".card", open_menu),
    ("list-rows", "ann", "/", ".card", as_rows),
    ("list-selection", "ann", "/", ".card", select_some),
    ("list-bulk", "ann", "/", ".card", ask_for_several),
    ("list-bulk-failed", "ann", "/", ".card", fail_for_several),
    ("list-keys", "ann", "/", ".card", show_keys),
    ("list-many", "newcomer", "/", ".first", many),
    ("list-none", "ann", "/", ".card", search_nothing),
    ("list-lost", "ann", "/", ".card", lose_connection),
    ("empty", "newcomer", "/", ".first", None),
    ("create", "ann", "/", ".card", open_create),
    ("delete", "ann", "/", ".card", open_delete),
    ("limit", "ann", "/", ".card", hit_limit),
    ("workspace", "ann", "/", ".card", open_workspace("atlas")),
    ("workspace-error", "ann", "/", ".card", open_workspace("granite")),
    ("workspace-new", "ann", "/", ".card", open_workspace("ember")),
    ("tokens", "ann", "/tokens", ".table", None),
    ("tokens-empty", "newcomer", "/tokens", ".empty-line", None),
    ("token-once", "newcomer", "/tokens", ".empty-line", create_token),
    ("tokens-error", "ann", "/tokens", ".table", fail("/tokens")),
    ("account", "ann", "/account", ".ssh-keys .table", None),
    ("account-no-keys", "newcomer", "/account", ".ssh-keys .empty-line", None),
    ("account-add-key", "ann", "/account", ".ssh-keys .table", add_private_key),
    ("account-error", "ann", "/account", ".ssh-keys", fail("/account")),
    ("admin", "admin", "/admin", ".table", None),
    ("admin-workspaces", "admin", "/admin/workspaces", ".table", None),
    ("admin-users", "admin", "/admin/users", ".table", None),
    ("admin-user-add", "admin", "/admin/users", ".table", add_user),
    ("admin-orphans", "admin", "/admin/orphans", ".table", None),
    ("admin-audit", "admin", "/admin/audit", ".table", None),
    ("not-found", "ann", "/nowhere", ".not-found", None),
]

WIDTHS = {"narrow": (390, 844), "wide": (1280, 860)}


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", type=Path, default=Path("/tmp/codehub-screenshots"))
    arguments.add_argument("--only", default="")
    arguments.add_argument("--no-images", action="store_true")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PORT": "0"}
    with subprocess.Popen(
        ["node", str(WEB / "dev/fake-api.mjs")], stdout=subprocess.PIPE, text=True, env=environment
    ) as api:
        try:
            assert api.stdout is not None
            base = api.stdout.readline().strip()
            problems = look(base, options)
        finally:
            api.terminate()
    print("\n".join(problems) or "no problems")
    return 1 if problems else 0


def look(base: str, options: argparse.Namespace) -> list[str]:
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, (w, h) in WIDTHS.items():
            for theme in ("light", "dark"):
                for language in ("en", "ko"):
                    for name, user, path, ready, setup in SCENES:
                        label = f"{name}-{width}-{theme}-{language}"
                        if options.only and options.only not in label:
                            continue
                        context = browser.new_context(
                            base_url=base,
                            viewport={"width": w, "height": h},
                            color_scheme=theme,  # type: ignore[arg-type]
                            locale="ko-KR" if language == "ko" else "en-GB",
                            reduced_motion="reduce",
                        )
                        page = context.new_page()
                        said: list[str] = []
                        page.on(
                            "console", lambda m, said=said: said.append(m.text) if m.type == "error" else None
                        )
                        page.on("pageerror", lambda e, said=said: said.append(str(e)))
                        try:
                            page.request.post("/dev/fail")
                            page.request.post("/dev/lost?on=0")
                            page.request.post("/dev/reset")
                            if user:
                                page.request.post(
                                    "/api/v1/auth/login", data={"username": user, "password": "password"}
                                )
                            page.goto(path)
                            page.locator(ready).first.wait_for(timeout=10_000)
                            if setup:
                                setup(page)
                            page.wait_for_timeout(150)
                            problems += [f"{label}: axe: {v}" for v in axe_violations(page)]
                            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                                problems.append(f"{label}: scrolls sideways")
                            if not options.no_images:
                                page.screenshot(
                                    path=options.out / f"{label}.png",
                                    full_page=page.locator("dialog[open]").count() == 0,
                                )
                        except Exception as error:  # noqa: BLE001 - one broken scene must not hide the others
                            problems.append(f"{label}: {error}")
                        problems += [f"{label}: console: {text}" for text in said if "status of" not in text]
                        context.close()
        browser.close()
    return problems


if __name__ == "__main__":
    sys.exit(main())
