"""What listens in a workspace: who may look, what a hostile workspace can claim, and that looking is no use."""

import json
from uuid import UUID, uuid4

import pytest

from codehub.api.dependencies import ApiSettings
from codehub.api.routes.ports import merge
from codehub.api.schemas.files import MAX_LISTENERS, InsideListener
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace
from tests.integration.api.test_inside import line, running, saying
from tests.integration.api.test_roles import WHO, everybody, execute
from tests.support.fake_exec import FakeProcess

WEB = {"address": "0.0.0.0", "port": 3000, "process": "node", "pid": 7}
DATABASE = {"address": "127.0.0.1", "port": 5432}


async def test_who_may_look_into_one_that_runs(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    path = await running(environment, people["owner"], saying(line(listeners=[WEB])))
    expected = dict(zip(WHO, (401, 200, 404, 200, 200, 401), strict=True))
    for who, client in people.items():
        assert (await client.get(f"{path}/ports")).status_code == expected[who], who
    audited = (await people["admin"].get("/api/v1/admin/audit")).json()["items"]
    looks = [each["actor"] for each in audited if each["action"] == "workspace.ports"]
    assert looks == ["user:admin"]  # not what people see of their own


async def test_ports_have_links_where_the_proxy_reaches_them(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    both = [WEB, {**WEB, "address": "::"}, DATABASE]
    path = await running(environment, ann, saying(line(listeners=both, home="/home/jovyan")))
    workspace_id = path.rsplit("/", 1)[1]
    assert (await ann.get(f"{path}/ports")).json() == {
        "ports": [
            {
                "port": 3000,
                "addresses": ["0.0.0.0", "::"],
                "process": "node",
                "is_ide": False,
                "url": f"{BASE_URL}/w/{workspace_id}/port/3000/",
            },
            # The loopback of a container is reached through a tunnel.
            {
                "port": 5432,
                "addresses": ["127.0.0.1"],
                "process": None,
                "is_ide": False,
                "url": f"{BASE_URL}/w/{workspace_id}/port/5432/",
            },
        ],
        "truncated": False,
        "home": "/home/jovyan",
    }


async def test_it_is_asked_once_and_nothing_else(environment: ApiEnvironment) -> None:
    asked = []

    async def program(process: FakeProcess) -> int:
        asked.append(json.loads(await process.read()))
        await process.say(line())
        return 0

    ann = await environment.sign_in("ann")
    path = await running(environment, ann, program)
    answer = await ann.get(f"{path}/ports")
    assert answer.json() == {"ports": [], "truncated": False, "home": None}
    assert asked == [{"do": "ports", "own_only": False, "limit": MAX_LISTENERS}]


@pytest.mark.parametrize(
    "listener",
    [
        {**WEB, "port": 0},
        {**WEB, "port": 65536},
        {**WEB, "address": "<script>"},
        {**WEB, "process": "x" * 5000},
        "3000",
    ],
)
async def test_nonsense_is_an_error_and_no_answer(environment: ApiEnvironment, listener: object) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(line(listeners=[listener])))
    refused = await ann.get(f"{path}/ports")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


async def test_so_many_listeners_are_nonsense(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(line(listeners=[WEB] * (MAX_LISTENERS + 1))))
    assert (await ann.get(f"{path}/ports")).status_code == 503


async def test_a_program_of_an_older_release_is_told(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    older = line(error="failed", message='nothing is known of "ports"')
    path = await running(environment, ann, saying(older))
    refused = await ann.get(f"{path}/ports")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "stop and start it once" in refused.json()["detail"]


async def test_looking_wakes_nothing_and_keeps_nothing_awake(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    made = await create_workspace(ann, "asleep")
    refused = await ann.get(f"/api/v1/workspaces/{made['id']}/ports")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_running")
    assert (await ann.get(f"/api/v1/workspaces/{made['id']}/ports?wake=true")).status_code == 422
    now = (await ann.get(f"/api/v1/workspaces/{made['id']}")).json()
    assert now["desired_state"] != "RUNNING"

    bob = await environment.sign_in("bob")
    path = await running(environment, bob, saying(line(listeners=[WEB])))
    workspace_id = UUID(path.rsplit("/", 1)[1])
    assert (await bob.get(f"{path}/ports")).status_code == 200
    seen = (await environment.activity.read_many([workspace_id]))[workspace_id]
    assert (seen.connections, seen.last_seen_at) == (0, None)
    await bob.get(f"{path}/files")  # which is use
    seen = (await environment.activity.read_many([workspace_id]))[workspace_id]
    assert seen.last_seen_at is not None
    await execute(environment, "UPDATE workspaces SET desired_state = 'STANDBY'")
    assert (await bob.get(f"{path}/ports")).json()["code"] == "not_running"


WORKSPACE_ID = uuid4()
LOOPBACK = InsideListener.model_validate({"address": "127.0.0.1", "port": 8888})


def test_the_ide_s_own_port_is_the_workspace_s_link() -> None:
    (port,) = merge(
        [LOOPBACK],
        workspace_id=WORKSPACE_ID,
        ide_port=8888,
        settings=ApiSettings(base_url=BASE_URL),
    )
    assert (port.is_ide, port.url) == (True, f"{BASE_URL}/w/{WORKSPACE_ID}/")


def test_with_a_base_domain_a_port_has_an_origin_of_its_own() -> None:
    settings = ApiSettings(base_url="https://hub.example.org:8443", base_domain="ws.example.org")
    (port,) = merge([LOOPBACK], workspace_id=WORKSPACE_ID, ide_port=None, settings=settings)
    assert port.url == f"https://8888--{WORKSPACE_ID}.ws.example.org:8443/"
