"""Routes for images and limits: ``/images`` and ``/limits``."""

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.router import api_router
from codehub.api.schemas.catalogue import IdeInstallation, Image, Images, Limits, Usage
from codehub.api.state import State
from codehub.runtimes.base import InstallableImage
from codehub.store.workspaces import limits as places

router = api_router("", "catalogue")


@router.get(
    "/images",
    summary="Images a workspace may run",
    response_model=Images,
    responses=problems.documented("unauthorized"),
)
async def images(caller: Caller, state: State) -> Images:
    del caller
    known = await state.deps.runtime.images()
    default = state.settings.default_image or (known[0] if known else None)
    tied = state.settings.ties_home_to_node
    describe = state.deps.installations
    described = {each.name: each for each in await describe()} if describe is not None else {}
    items = [
        Image(
            name=name,
            node_local_home=tied(name),
            title=described[name].title if name in described else None,
            installation=_installation(described[name]) if name in described else None,
        )
        for name in known
    ]
    return Images(items=items, default=default)


@router.get(
    "/limits",
    summary="Limits of running workspaces, and their use",
    response_model=Limits,
    responses=problems.documented("unauthorized"),
)
async def limits(caller: Caller, state: State) -> Limits:
    allowed = state.settings.limits
    async with state.reading() as session:
        used = await places.usage(session, caller.user.id)
    return Limits.model_validate(
        {
            "user": Usage(used=used.user, allowed=allowed.per_user),
            "global": Usage(used=used.total, allowed=allowed.in_all),
            "attempts": state.settings.max_retries + 1,
        }
    )


def _installation(image: InstallableImage) -> IdeInstallation:
    return IdeInstallation(
        version=image.version,
        offered=image.offered,
        percent=image.percent,
        fetched_mb=image.fetched_mb,
        disk_mb=image.disk_mb,
    )
