"""People register the public keys they connect with: ``/ssh-keys``."""

from typing import Any

import httpx
import pytest

from codehub.services.ssh_keys import MAX_KEYS
from tests.integration.api.environment import ApiEnvironment
from tests.unit.domain.test_ssh_keys import ED25519, rsa, written

PATH = "/api/v1/ssh-keys"


def key(number: int) -> str:
    return written("ssh-ed25519", number.to_bytes(32, "big"))


async def add(client: httpx.AsyncClient, public_key: str, name: str = "laptop") -> dict[str, Any]:
    answer = await client.post(PATH, json={"name": name, "public_key": public_key})
    assert answer.status_code == 201, answer.text
    added: dict[str, Any] = answer.json()
    return added


async def test_a_key_is_added_listed_and_removed(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    added = await add(ann, f"{ED25519} ann@laptop\n")
    assert added["public_key"] == ED25519
    assert added["fingerprint"] == "SHA256:WxML8JEKqn6a2mQEje+Z7z+ElgmfAcZpeRAgOrZ11Qo"
    assert added["last_used_at"] is None
    second = await add(ann, rsa(3072), "old")
    listed = (await ann.get(PATH)).json()
    assert listed == {"items": [second, added], "next_cursor": None, "gateway": None}
    assert (await ann.delete(f"{PATH}/{added['id']}")).status_code == 204
    assert (await ann.delete(f"{PATH}/{added['id']}")).status_code == 404
    assert (await ann.get(PATH)).json()["items"] == [second]
    audit = (await admin.get("/api/v1/admin/audit")).json()["items"]
    ours = [each for each in audit if each["action"].startswith("ssh_key.")]
    assert [(each["actor"], each["action"]) for each in reversed(ours)] == [
        ("user:ann", "ssh_key.add"),
        ("user:ann", "ssh_key.add"),
        ("user:ann", "ssh_key.remove"),
    ]
    assert ours[0]["detail"] == {"name": "laptop", "fingerprint": added["fingerprint"]}


async def test_keys_are_their_owners_alone(environment: ApiEnvironment) -> None:
    ann, bob, admin = [await environment.sign_in(name) for name in ("ann", "bob", "admin")]
    added = await add(ann, ED25519)
    for other in (bob, admin):
        assert (await other.get(PATH)).json()["items"] == []
        assert (await other.delete(f"{PATH}/{added['id']}")).status_code == 404
    assert len((await ann.get(PATH)).json()["items"]) == 1


async def test_a_key_belongs_to_one_person(environment: ApiEnvironment) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    added = await add(ann, ED25519)
    again = await ann.post(PATH, json={"name": "again", "public_key": ED25519})
    assert (again.status_code, again.json()["code"]) == (409, "key_taken")
    assert "'laptop'" in again.json()["detail"]
    taken = await bob.post(PATH, json={"name": "mine", "public_key": ED25519 + " bob"})
    assert (taken.status_code, taken.json()["code"]) == (409, "key_taken")
    assert "ann" not in taken.text
    assert (await ann.delete(f"{PATH}/{added['id']}")).status_code == 204
    await add(bob, ED25519)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "key_private"),
        (f"no-pty {ED25519}", "key_options"),
        (rsa(2048), "key_short"),
        ("what is this", "key_format"),
    ],
)
async def test_what_is_no_key_is_refused(environment: ApiEnvironment, text: str, reason: str) -> None:
    ann = await environment.sign_in("ann")
    answer = await ann.post(PATH, json={"name": "laptop", "public_key": text})
    assert (answer.status_code, answer.json()["code"]) == (422, "unfit_key")
    (error,) = answer.json()["errors"]
    assert (error["field"], error["code"]) == ("public_key", reason)
    assert error["message"] == answer.json()["detail"]


async def test_there_is_a_limit(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    for number in range(MAX_KEYS):
        await add(ann, key(number))
    answer = await ann.post(PATH, json={"name": "one more", "public_key": key(MAX_KEYS)})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_keys")
    assert len((await ann.get(PATH)).json()["items"]) == MAX_KEYS
