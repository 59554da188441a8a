"""Docker checks of ``codehub doctor``: engine, images, networks, disk.

Nothing is pulled and nothing created: the engine asks the registry whether an image could be pulled, since the
engine would pull it.
"""

import asyncio
from collections.abc import Iterable

from codehub.domain.errors import EffectError
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.server.doctor.findings import Finding, Severity
from codehub.server.settings.tree import Settings

OLDEST_API = (1, 41)  # Docker 20.10
ANSWER_SECONDS = 10.0
REGISTRY_SECONDS = 15.0

BUILD = {
    "codehub/code-server": "docker build -t codehub/code-server images/code-server",
    "codehub/jupyterlab": "docker build -t codehub/jupyterlab -f images/jupyterlab/Dockerfile .",
    "codehub/job": "docker build -t codehub/job -f images/job/Dockerfile .",
    "codehub/codehub": "docker build -t codehub/codehub -f deploy/compose/Dockerfile .",
}
START_IT = (
    "Start Docker, check DOCKER_HOST, and let this user use the engine's socket (on Debian: the group "
    "docker), or set CODEHUB_RUNTIME=local."
)


async def examine_docker(settings: Settings) -> list[Finding]:
    """Check the engine; the rest only if it answers. Never raises for a finding."""
    docker = settings.docker
    engine = DockerEngine(docker.host, call_seconds=ANSWER_SECONDS)
    try:
        return [
            _engine(docker.host, await engine.version()),
            await _images(engine, "workspace images", docker.allowed_images, setting="DOCKER_IMAGES"),
            await _images(engine, "storage job image", [docker.job_image], setting="DOCKER_JOB_IMAGE"),
            await _networks(engine, settings),
            _disk(await engine.info()),
        ]
    except EffectError as error:
        return [Finding("runtime", Severity.BAD, error.message, START_IT)]
    finally:
        await engine.close()


def _engine(host: str, version: Document) -> Finding:
    api = str(version.get("ApiVersion", "0"))
    detail = f"Docker {version.get('Version', '')} (API {api}) at {host}"
    if tuple(map(int, api.split("."))) < OLDEST_API:
        return Finding("runtime", Severity.BAD, detail, "Use Docker 20.10 or newer.")
    return Finding("runtime", Severity.OK, detail)


def _disk(info: Document) -> Finding:
    """Report that nothing bounds a home's size: one home can fill the disk of all."""
    where = info.get("DockerRootDir", "its data directory")
    detail = f"nothing bounds what a home or /tmp of a workspace takes of the engine's disk ({where})"
    advice = "Give that directory a file system of its own, with quotas if need be, and watch how full it is."
    return Finding("disk of the engine", Severity.NOTE, detail, advice)


async def _images(engine: DockerEngine, what: str, references: Iterable[str], *, setting: str) -> Finding:
    references = list(references)
    if not references:
        return Finding(what, Severity.OK, f"any ({setting}=*); pulled when first wanted")
    absent = [each for each in references if not await _is_there(engine, each)]
    if not absent:
        return Finding(what, Severity.OK, f"on the engine: {', '.join(references)}")
    reasons = dict(
        zip(absent, await asyncio.gather(*(_why_not(engine, each) for each in absent)), strict=True)
    )
    lost = {reference: reason for reference, reason in reasons.items() if reason is not None}
    if not lost:
        advice = f"Pulled when first wanted, which makes that start slow; or now: docker pull {absent[0]}"
        return Finding(what, Severity.NOTE, f"not on the engine yet: {', '.join(absent)}", advice)
    detail = "; ".join(f"{reference} cannot be had: {reason}" for reference, reason in lost.items())
    return Finding(what, Severity.BAD, detail, _how_to_get(lost, setting=setting))


async def _is_there(engine: DockerEngine, reference: str) -> bool:
    try:
        await engine.image(reference)
    except (NotFound, CallRefused):
        return False
    return True


async def _why_not(engine: DockerEngine, reference: str) -> str | None:
    """Why the engine could not pull this image; None: it could."""
    try:
        async with asyncio.timeout(REGISTRY_SECONDS):
            await engine.registry_entry(reference)
    except TimeoutError:
        return "its registry does not answer"
    except (NotFound, CallRefused, Conflict, EffectError) as error:
        return str(error).strip().splitlines()[0]
    return None


def _how_to_get(references: Iterable[str], *, setting: str) -> str:
    ours = [BUILD[each] for each in references if each in BUILD]
    if ours:
        return f"Name another in {setting}, or build it in CodeHub's source: {' && '.join(ours)}"
    return f"Build or load it on the engine, check its name, or name another in {setting}."


async def _networks(engine: DockerEngine, settings: Settings) -> Finding:
    docker = settings.docker
    wanted = [] if docker.network is None else [("DOCKER_NETWORK", docker.network)]
    if not settings.archive_url.startswith("file://"):
        wanted.append(("DOCKER_JOB_NETWORK", docker.job_network))
    there = {str(each[key]) for each in await engine.networks({}) for key in ("Name", "Id")}
    missing = [(setting, name) for setting, name in wanted if name not in there]
    if missing:
        detail = ", ".join(f"{setting}={name} is not on the engine" for setting, name in missing)
        advice = f"Make it (docker network create {missing[0][1]}), or correct the setting."
        return Finding("networks", Severity.BAD, detail, advice)
    workspaces = docker.network or "a private one of this installation"
    jobs = dict(wanted).get("DOCKER_JOB_NETWORK", "none, the archives are files")
    return Finding("networks", Severity.OK, f"workspaces: {workspaces}; storage jobs: {jobs}")
