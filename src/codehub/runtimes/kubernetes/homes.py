"""Create, grow and delete the claims of homes. Idempotent, fenced.

A claim may stay Pending until a pod uses it (``WaitForFirstConsumer``): it exists, which is what counts. It is deleted
with uid and resource version after our token was stamped on it, and the deletion ends when it is gone: Kubernetes keeps
a claim that a pod uses.
"""

from contextlib import aclosing, suppress
from uuid import UUID

import structlog

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, Expired, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import Home, read_home
from codehub.runtimes.kubernetes.manifests import home_claim
from codehub.runtimes.kubernetes.names import Names
from codehub.runtimes.kubernetes.observe import ClusterObserver
from codehub.runtimes.kubernetes.pods import Check
from codehub.runtimes.kubernetes.reasons import home_node_unavailable, refusal
from codehub.runtimes.kubernetes.settings import KubernetesSettings

log = structlog.get_logger(__name__)

_TRIES = 20


class Homes:
    def __init__(
        self, api: ApiClient, names: Names, observer: ClusterObserver, settings: KubernetesSettings
    ) -> None:
        self._api = api
        self._names = names
        self._observer = observer
        self._settings = settings

    async def create(self, workspace_id: UUID, token: FencingToken, *, image_ref: str, check: Check) -> Home:
        """Create the home's claim, as its image or the settings say.

        A claim has no gate, so the fence is read after it exists: if a newer leader has taken over, the claim, which is
        empty, is deleted again. A crash in between leaves an empty home that is not trusted.
        """
        claim = home_claim(
            workspace_id, token, names=self._names, settings=self._settings, image_ref=image_ref
        )
        try:
            home = read_home(await self._api.create(self._path(), claim))
        except Conflict:
            found = await self._observer.find_home(workspace_id)
            if found is None:
                raise taken(self._names.home(workspace_id), kind="A claim") from None
            return found
        except NotFound as error:
            raise EffectError(FailureCode.VOLUME_CREATE_FAILED, str(error)) from error
        except CallRefused as error:
            raise refusal(error, what="The home's claim") from error
        try:
            await check()
        except EffectError as error:
            if error.failure is FailureCode.STALE_TOKEN:
                with suppress(EffectError):
                    await self._undo(home, workspace_id)
            raise
        return home

    async def _undo(self, home: Home, workspace_id: UUID) -> None:
        """Delete a home we created too late, unless a newer leader has stamped it and so uses it."""

        async def is_still_ours() -> None:
            current = await self._observer.find_home(workspace_id)
            if current is not None and current.uid == home.uid and current.token != home.token:
                raise taken(home.name, kind="A claim")

        await self.delete(home, workspace_id, check=is_still_ours)

    async def grow(self, home: Home, *, image_ref: str = "") -> None:
        """Ask for the size of its image or the settings if the home has less. Never shrinks, never fails a start.

        ``home`` carries our token: a newer leader's stamp changes its version, and then nothing is asked for. The
        volume grows while, or before, a pod uses it, as its driver does it.
        """
        wanted = self._settings.homes_of(image_ref).bytes
        if home.size is None or home.size >= wanted:
            return
        body = {
            "metadata": {"uid": home.uid, "resourceVersion": home.version},
            "spec": {"resources": {"requests": {"storage": str(wanted)}}},
        }
        try:
            await self._api.patch(self._path(home.name), body)
        except (CallRefused, Conflict, NotFound) as error:
            log.warning(
                "the home was not made larger",
                claim=home.name,
                size=home.size,
                wanted=wanted,
                error=str(error),
            )
        else:
            log.info("the home is made larger", claim=home.name, size=home.size, wanted=wanted)

    async def delete(self, home: Home, workspace_id: UUID, *, check: Check) -> None:
        """Delete a home and return when it is gone. ``home`` carries our token."""
        for _ in range(_TRIES):
            if home.terminating:
                break
            try:
                await self._api.delete(self._path(home.name), uid=home.uid, version=home.version)
                break
            except NotFound:
                return
            except Conflict:
                current = await self._observer.find_home(workspace_id)
                if current is None or current.uid != home.uid:
                    return
                await check()
                home = current
            except CallRefused as error:
                raise EffectError(FailureCode.VOLUME_IN_USE, str(error)) from error
        await self.wait_until_gone(home, workspace_id)

    async def wait_until_gone(self, home: Home, workspace_id: UUID) -> None:
        seconds = self._settings.gone_seconds
        deadline = monotonic() + seconds
        while monotonic() < deadline:
            current = await self._observer.find_home(workspace_id)
            if current is None or current.uid != home.uid:
                return
            with suppress(Expired):
                events = self._api.watch(
                    self._path(),
                    version=current.version,
                    seconds=max(1.0, deadline - monotonic()),
                    fieldSelector=f"metadata.name={home.name}",
                )
                async with aclosing(events):
                    async for kind, _ in events:
                        if kind == "DELETED":
                            return
        raise EffectError(
            FailureCode.VOLUME_IN_USE,
            f"The claim {home.name} is not gone after {seconds:g} s: Kubernetes keeps it while a pod uses it.",
        )

    def _path(self, name: str = "") -> str:
        return namespaced(self._settings.namespace, "persistentvolumeclaims", name)


def tell_home_node(home: Home | None, error: EffectError) -> None:
    """Raise ``HOME_NODE_UNAVAILABLE`` for a pod that no node took, where its home is on one of them."""
    if home is None or home.node is None or not home.node_local:
        return
    if error.failure is FailureCode.UNSCHEDULABLE:
        raise home_node_unavailable(error, node=home.node) from error


def taken(name: str, *, kind: str) -> EffectError:
    return EffectError(
        FailureCode.NAME_TAKEN,
        f"{kind} called {name} exists and is not of this installation; it was left alone. Rename or remove it.",
        name=name,
    )


def require_no_stranger(home: str, strangers: list[str]) -> None:
    """Raise ``VOLUME_USED_ELSEWHERE`` if another pod uses the home."""
    if strangers:
        raise EffectError(
            FailureCode.VOLUME_USED_ELSEWHERE,
            f"The claim {home} is also used by the pod {', '.join(strangers)}, which is not the one CodeHub made for "
            "this workspace. Nothing was changed. Delete that pod.",
            expected="no other pod on the claim",
            actual=strangers,
            volume=home,
        )
