"""Reading the state by API, signed in: one workspace, and a list of fifty. Sixteen connections.

JupyterHub's nearest things are a user (with its server) and the list of users. Both sides are asked where
people ask them: at the front door.
"""

import asyncio
from pathlib import Path

from bench.codehub_side import codehub
from bench.jupyterhub_side import jupyterhub
from bench.load import wrk
from bench.processes import cpu_seconds
from bench.runner import Bar, Report, take_turns

KNOWN = 50
CONNECTIONS = 16
SECONDS = 4.0


async def read(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "api",
        f"Reading by API, {CONNECTIONS} connections (requests a second)",
        bars=[
            Bar("one, requests/s", "codehub", "jupyterhub", at_least=8),
            Bar("one, requests/s", "codehub token", "jupyterhub", at_least=8),
            Bar("list of 50, requests/s", "codehub", "jupyterhub", at_least=8),
            Bar("list of 50, requests/s", "codehub token", "jupyterhub", at_least=8),
            Bar("list of 50 alone, requests/s", "codehub", "jupyterhub", at_least=8),
        ],
    )
    async with codehub(directory) as ours, jupyterhub(directory) as theirs:
        ids = await asyncio.gather(*(ours.create(f"api-{n}", start=False) for n in range(KNOWN)))
        await theirs.add_users([f"api-{n}" for n in range(KNOWN)])
        cookie = {"Cookie": ours.cookie}
        bearer = {"Authorization": f"Bearer {ours.token}"}
        token = {"Authorization": f"token {theirs.token}"}
        our_list = f"{ours.url}/api/v1/workspaces?limit={KNOWN}"
        our_one = f"{ours.url}/api/v1/workspaces/{ids[0]}"

        async def measure(one: str, many: str, headers: dict[str, str]) -> dict[str, float]:
            figures: dict[str, float] = {}
            for what, url, connections in (
                ("one", one, CONNECTIONS),
                (f"list of {KNOWN}", many, CONNECTIONS),
                # Equal questions of one moment share an answer in CodeHub; one connection shares nothing.
                (f"list of {KNOWN} alone", many, 1),
            ):
                got = await wrk(url, headers=headers, connections=connections, seconds=SECONDS)
                figures |= {f"{what}, {metric}": value for metric, value in got.items()}
            return figures

        sides = {
            "codehub": lambda: measure(our_one, our_list, cookie),
            "codehub token": lambda: measure(our_one, our_list, bearer),
            "jupyterhub": lambda: measure(
                f"{theirs.url}/hub/api/users/api-0", f"{theirs.url}/hub/api/users?limit={KNOWN}", token
            ),
        }
        before = cpu_seconds(ours.pids())
        await take_turns(report, sides, rounds=rounds)
        report.notes.append(f"CodeHub used {cpu_seconds(ours.pids()) - before:.1f} s of CPU for its turns.")
    return report
