"""What sleeping saved this month, one's own and everybody's."""

import httpx
import pytest

from codehub.services.savings import MONTH_HOURS, Price
from codehub.store.workspaces.hours import Hours
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace
from tests.integration.api.test_roles import execute


async def ran_a_third(environment: ApiEnvironment, workspace_id: str) -> None:
    """It has existed since the month began, and ran for the first third of that time."""
    month = "date_trunc('month', now(), 'UTC')"
    await execute(environment, "ALTER TABLE workspaces DISABLE TRIGGER USER")
    await execute(
        environment,
        f"UPDATE workspaces SET created_at = {month} WHERE id = cast(:id as uuid)",
        id=workspace_id,
    )
    await execute(environment, "ALTER TABLE workspaces ENABLE TRIGGER USER")
    for status, at in (("RUNNING", month), ("STANDBY", f"{month} + (now() - {month}) / 3")):
        await execute(
            environment,
            "INSERT INTO workspace_events (workspace_id, version, at, changes) VALUES (cast(:id as uuid), 9, "
            f"{at}, jsonb_build_object('observed_status', jsonb_build_array('X', cast(:status as text))))",
            id=workspace_id,
            status=status,
        )


async def test_hours_of_ones_own_and_of_everybody(environment: ApiEnvironment) -> None:
    ann, bob, admin = [await environment.sign_in(name) for name in ("ann", "bob", "admin")]
    for person, name in ((ann, "one"), (ann, "two"), (bob, "one")):
        await ran_a_third(environment, (await create_workspace(person, name))["id"])
    own = (await ann.get("/api/v1/savings")).json()
    his = (await bob.get("/api/v1/savings")).json()
    everybody = (await admin.get("/api/v1/admin/savings")).json()
    assert own["hours_ran"] == pytest.approx(own["hours_existed"] / 3, rel=1e-3, abs=0.01)
    assert own["hours_saved"] == pytest.approx(own["hours_existed"] - own["hours_ran"], abs=0.002)
    assert own["hours_existed"] == pytest.approx(2 * his["hours_existed"], rel=1e-2, abs=0.01)
    assert everybody["hours_existed"] == pytest.approx(
        own["hours_existed"] + his["hours_existed"], rel=1e-2, abs=0.01
    )
    assert (own["money"], own["currency"]) == (None, None)
    assert (await admin.get("/api/v1/savings")).json()["hours_existed"] == 0, (
        "administrators have their own, too"
    )


async def test_a_price_turns_hours_into_money(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    await ran_a_third(environment, (await create_workspace(ann))["id"])
    priced = environment.with_settings(price=Price(0.5, "KRW"))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(priced), base_url=BASE_URL, cookies=ann.cookies
    ) as client:
        found = (await client.get("/api/v1/savings")).json()
    assert found["currency"] == "KRW"
    assert found["money"] == pytest.approx(found["hours_saved"] / 2, abs=0.01)
    disk = Price(0.0, "KRW", per_gb_month=10.0)
    assert disk.of(Hours(existed=100, ran=0, gb_hours=3 * MONTH_HOURS)) == pytest.approx(30.0)
