"""VS Code as a person uses it in the browser: by what is on the screen, with the keyboard."""

import os
import re
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Locator, Page, TimeoutError, expect

SLOW_MS = 240_000  # an IDE's first start on a busy machine
AGAIN_MS = 20_000
ATTEMPTS = 8


class VSCode:
    """One window with VS Code in it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def until_open(self) -> None:
        """Until it is drawn, with its list of files."""
        await expect(self.page.locator(".monaco-workbench")).to_be_visible(timeout=SLOW_MS)
        await expect(self.page.locator(".explorer-folders-view")).to_be_visible(timeout=SLOW_MS)

    async def run(self, command: str) -> None:
        """Run a command of the palette by its name.

        The palette closes when something else takes the focus, as parts of a window that still opens do:
        then it is asked for again, as a person would.
        """
        entry = self.page.locator(".quick-input-widget input[type=text]")
        found = self.page.locator(".quick-input-list .monaco-list-row", has_text=command).first
        for _ in range(ATTEMPTS):
            await self.page.keyboard.press("F1")
            with suppress(TimeoutError):
                await entry.fill(f">{command}", timeout=AGAIN_MS)
                await found.click(timeout=AGAIN_MS)
                return
            await self.page.keyboard.press("Escape")
        raise AssertionError(f"the palette did not take {command!r}")

    async def write_file(self, name: str, text: str) -> None:
        """In the editor: new, typed, saved under this name in the home."""
        await self.run("File: New Untitled Text File")
        await expect(self.page.locator(".tab", has_text="Untitled-1")).to_be_visible(timeout=SLOW_MS)
        editor = self.page.locator(".editor-instance .monaco-editor").last
        await editor.locator(".view-lines").click()
        await self.page.keyboard.type(text)
        await expect(editor.locator(".view-lines")).to_contain_text(text)
        await self.run("File: Save As...")
        where = self.page.locator(".quick-input-widget input[type=text]")
        # It proposes the first line as a name, once it has found the folder.
        await expect(where).to_have_value(re.compile(f"/{re.escape(text)}$"), timeout=SLOW_MS)
        home, _, _ = (await where.input_value()).rpartition("/")
        await where.fill(f"{home}/{name}")
        await where.press("Enter")
        await expect(self._file(name)).to_be_visible(timeout=SLOW_MS)

    async def type_in_terminal(self, line: str, *, makes: str) -> None:
        """In a new terminal; ``makes``: the file that appears in the home by it."""
        await self.run("Terminal: Create New Terminal")
        terminal = self.page.locator(".terminal-wrapper.active .xterm")
        await expect(terminal).to_be_visible(timeout=SLOW_MS)
        for _ in range(ATTEMPTS):
            await terminal.locator(".xterm-helper-textarea").focus()
            await self.page.keyboard.insert_text(
                line
            )  # whole or not at all: the focus may be taken between keys
            await self.page.keyboard.press("Enter")
            with suppress(AssertionError):
                await expect(self._file(makes)).to_be_visible(timeout=AGAIN_MS)
                return
        raise AssertionError(f"the terminal did not run {line!r}")

    async def shows_file(self, name: str, text: str) -> None:
        """Open it from the list of files and read it in the editor."""
        await self._file(name).dblclick()
        tab = self.page.locator(".tab.active", has_text=name)
        await expect(tab).to_be_visible(timeout=SLOW_MS)
        editor = self.page.locator(".editor-instance .monaco-editor .view-lines").first
        await expect(editor).to_contain_text(text, timeout=SLOW_MS)

    async def show(self, name: str) -> None:
        """Keep a picture where CODEHUB_TEST_SCREENSHOTS names a directory."""
        if directory := os.environ.get("CODEHUB_TEST_SCREENSHOTS"):
            await self.page.screenshot(path=Path(directory) / f"{name}.png")

    def _file(self, name: str) -> Locator:
        return self.page.locator(f".explorer-folders-view .monaco-list-row[aria-label^='{name}']")
