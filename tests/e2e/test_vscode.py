"""VS Code as people use it: edit, terminal, sleep, wake, archive, wake; one link, and every file is back."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from codehub.runtimes.docker.names import INSTALLATION, WORKSPACE
from tests.e2e.browser import Visit, chromium, visit
from tests.e2e.test_tab import layer, signed_in
from tests.e2e.vscode import SLOW_MS, VSCode
from tests.support.built_images import built_image
from tests.support.docker_api import DockerApi
from tests.support.docker_images import ensure_images, image
from tests.support.instance import codehub_up
from tests.support.object_stores import S3Server, rclone_server
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.requirements import require_chromium, require_docker

pytestmark = [
    pytest.mark.needs_browser,
    pytest.mark.needs_docker,
    pytest.mark.needs_built_images,
    pytest.mark.timeout(1500),  # includes waiting for an image that is being built
]

EDITED = "typed into the editor"
PRINTED = "printed in the terminal"
SECONDS = 240


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Server]:
    (tmp_path / "s3").mkdir()
    with rclone_server(tmp_path / "s3") as server:
        yield server


@pytest.fixture
def docker() -> DockerApi:
    require_chromium()
    return DockerApi(require_docker())


class Journey:
    """One person, one workspace, one link."""

    def __init__(self, window: Visit, person: Person, workspace_id: str) -> None:
        self._window = window
        self._person = person
        self._workspace_id = workspace_id
        self._code = VSCode(window.page)

    async def works(self, *, signed_in: bool = False) -> None:
        if not signed_in:
            await self._window.sign_in("admin", ADMIN_PASSWORD)
        await self._window.page.goto(f"/w/{self._workspace_id}/")
        await self._code.until_open()
        await self._code.write_file("from-editor.txt", EDITED)
        await self._code.type_in_terminal(f"echo {PRINTED} > from-terminal.txt", makes="from-terminal.txt")
        await self._code.show("vscode-work")

    async def is_offered_a_port(self) -> None:
        """A program that listens is offered in the tab."""
        port = random.randrange(20_000, 32_000)
        await self._code.type_in_terminal(
            f"(python3 -m http.server {port} &) 2> /dev/null; touch up.txt", makes="up.txt"
        )
        offer = self._window.page.locator("codehub-tab .notice", has_text=f"Port {port} is open")
        await expect(offer).to_be_visible(timeout=SLOW_MS)
        await self._code.show("vscode-port")
        async with self._window.page.context.expect_page() as opened:
            await offer.get_by_role("button", name="Open it").click()
        await expect((await opened.value).locator("body")).to_contain_text("from-editor.txt")
        await (await opened.value).close()

    async def sleeps(self) -> None:
        """With the window left open, which must not keep it awake or wake it."""
        await self._person.intent(self._workspace_id, "stop")
        await self._person.until_status(self._workspace_id, "standby", seconds=SECONDS)

    async def is_archived(self) -> None:
        await self._person.intent(self._workspace_id, "archive")
        await self._person.until_status(self._workspace_id, "archived", seconds=SECONDS)

    async def finds_everything_again(self, *, steps: int, picture: str) -> None:
        """By the same link: a waiting page with so many steps, then VS Code with both files."""
        page = self._window.page
        await page.goto(f"/w/{self._workspace_id}/")
        waiting = page.locator("main[data-page=waiting]")
        await expect(waiting).to_be_visible()
        await expect(waiting.locator("[data-step]")).to_have_count(steps)
        await self._code.show(f"vscode-{picture}-waiting")
        await self._code.until_open()
        await self._code.shows_file("from-editor.txt", EDITED)
        await self._code.shows_file("from-terminal.txt", PRINTED)
        await self._code.show(f"vscode-{picture}")

    async def goes_through_sleep(self) -> None:
        await self.sleeps()
        await self.finds_everything_again(steps=2, picture="awake")


async def test_in_a_container_with_archives_in_s3(docker: DockerApi, store: S3Server, tmp_path: Path) -> None:
    code_server = built_image("code-server")
    ensure_images(docker, ["job"])
    bucket = store.new_bucket()
    settings: dict[str, Any] = {
        **QUICK,
        **store.variables(bucket),
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": docker.address,
        "DOCKER_IMAGES": code_server,
        "DOCKER_JOB_IMAGE": image("job"),
        "DOCKER_JOB_NETWORK": "host",  # where this store is
    }
    workspace_id = ""
    try:
        async with (
            codehub_up(tmp_path / "data", **settings) as instance,
            Person.admin(instance.url) as person,
            chromium() as browser,
            visit(browser, instance.url, expected_complaints=True, strangers=True) as window,
        ):
            workspace_id = await person.create("project", image=code_server)
            journey = Journey(window, person, workspace_id)
            await journey.works()
            await journey.goes_through_sleep()

            await journey.is_archived()
            assert [key for key in store.keys(bucket) if key.endswith("/home.tar.zst")]
            assert not has_home(docker, workspace_id)
            await journey.finds_everything_again(steps=3, picture="restored")
            assert has_home(docker, workspace_id)
    finally:
        remove_installation_of(docker, workspace_id)


def has_home(docker: DockerApi, workspace_id: str) -> bool:
    return "Name" in docker.call("GET", f"/volumes/ws-{workspace_id}-home", expect=(404,))


def remove_installation_of(docker: DockerApi, workspace_id: str) -> None:
    for volume in docker.listed("volumes", f"{WORKSPACE}={workspace_id}")[:1]:
        docker.remove_everything(f"{INSTALLATION}={volume['Labels'][INSTALLATION]}")


async def test_as_a_process_installed_at_its_first_use(tmp_path: Path) -> None:
    """Without a container, on a machine that has none: the workspace waits for it, and the tab wakes itself."""
    settings: dict[str, Any] = dict(QUICK)
    async with (
        codehub_up(tmp_path / "data", bind=f"127.0.0.1:{free_port()}", **settings) as instance,
        Person.admin(instance.url) as person,
        chromium() as browser,
        signed_in(browser, instance.url) as window,
    ):
        workspace_id = await person.create("project", image="code-server")
        page, journey = window.page, Journey(window, person, workspace_id)
        await page.goto(f"/w/{workspace_id}/")
        await expect(page.locator("main[data-page=waiting]")).to_contain_text("Installing VS Code")
        await VSCode(page).show("vscode-installing")
        await journey.works(signed_in=True)
        await expect(page).to_have_title(re.compile("^project · "))
        await journey.is_offered_a_port()

        await journey.sleeps()
        await expect(layer(page)).to_contain_text("Your files are safe.")
        await VSCode(page).show("vscode-asleep")
        await layer(page).get_by_role("button", name="Wake", exact=True).click()
        await expect(layer(page)).to_be_hidden()
        await VSCode(page).until_open()

        await journey.is_archived()
        await journey.finds_everything_again(steps=3, picture="process-restored")
