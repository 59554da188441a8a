"""Everything beside the leaders: the Observer, the storage job, the person, and what breaks."""

from collections.abc import Iterator

from codehub.domain.observation import observe
from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from tests.model import decisions, runtime
from tests.model.rules import Rules
from tests.model.state import Budget, Leader, Look, Row, State, content_of

Step = tuple[str, State]
INTENTS = {
    "start": DesiredState.RUNNING,
    "stop": DesiredState.STANDBY,
    "archive": DesiredState.PENDING,
}


def observer(state: State, rules: Rules) -> Iterator[Step]:
    """Look, then write. Whatever happens between the two may or may not be in what is written."""
    row = state.row
    if row.observed is ObservedStatus.DELETED and _deleted_is_final(row, rules):
        return
    if state.look is not None:
        yield "Observer writes", state._replace(row=_observed(row, state.look), look=None)
        return
    world = state.world
    look = Look(world.container, world.volume is not None, fresh=row.acted)
    may_become_news = row.operation is not Operation.NONE or row.terminal
    if may_become_news or _observed(row, look) != row:
        yield "Observer looks", state._replace(look=look)


def _deleted_is_final(row: Row, rules: Rules) -> bool:
    return row.operation is Operation.NONE or not rules.deleted_at_rest


def _observed(row: Row, look: Look) -> Row:
    verdict = observe(
        container=look.container,
        volume=look.volume,
        deleted=row.deleted,
        terminal_error=row.terminal,
    )
    error = "broken" if verdict.broken is not None and row.error is None else row.error
    return row._replace(
        observed=verdict.observed_status,
        health_error=verdict.health_status.value == "ERROR",
        error=error,
        fresh=look.fresh and row.acted,
    )


def storage_job(state: State) -> Iterator[Step]:
    if state.world.job is not None:
        yield "job goes on", state._replace(world=runtime.advance_job(state.world))


def person(state: State, intents: tuple[str, ...], rules: Rules) -> Iterator[Step]:
    row, budget = state.row, state.budget
    if row.deleted:
        return
    if budget.intents:
        spent = budget._replace(intents=budget.intents - 1)
        for intent in intents:
            if (changed := _intent(row, intent)) != row:
                yield f"person intents {intent}", state._replace(row=changed, budget=spent)
    if budget.edits and state.world.container is ContainerState.RUNNING and state.world.volume is not None:
        world = state.world._replace(volume=state.newest + 1)
        spent = budget._replace(edits=budget.edits - 1)
        yield "person edits", state._replace(world=world, newest=state.newest + 1, budget=spent)
    if budget.recoveries and (row.terminal or row.given_up):
        yield "person recovers", recover(state, rules)


def recover(state: State, rules: Rules) -> State:
    """Told that the volume vanished, a person who recovers accepts the loss: the archive is the home."""
    row, world, newest = state.row, state.world, state.newest
    accepted = row.error == "vanished" and row.health_error
    if accepted and world.volume is None:
        newest = content_of(world, row.archive_key) or 0
        world = world._replace(unmounted=None)
    row = decisions.recovered(row, rules)
    look = state.look
    if rules.look_after_recovery:
        look = None
    budget = state.budget._replace(recoveries=max(0, state.budget.recoveries - 1))
    return state._replace(row=row, world=world, newest=newest, look=look, budget=budget)


def _intent(row: Row, intent: str) -> Row:
    if intent == "delete":
        return row._replace(deleted=True)
    if intent == "stop" and row.desired is DesiredState.PENDING:
        return row  # refused: a stop must not restore
    return row._replace(desired=INTENTS[intent])


def faults(state: State) -> Iterator[Step]:
    budget, world = state.budget, state.world
    if budget.takeovers:
        ghost = state.leader if state.leader.doing != "nothing" else None
        yield (
            "another leader takes over",
            state._replace(
                leader=Leader(state.leader.epoch + 1),
                ghost=ghost or state.ghost,
                budget=budget._replace(takeovers=budget.takeovers - 1),
            ),
        )
    if budget.crashes and world.container is ContainerState.RUNNING:
        dead = world._replace(container=ContainerState.DEAD)
        yield "container dies", state._replace(world=dead, budget=_less(budget, "crashes"))
    if budget.failures and world.job is not None:
        yield "job dies", state._replace(world=world._replace(job=None), budget=_less(budget, "failures"))
    if budget.unmounts and world.volume is not None and world.job is None:
        away = world._replace(volume=None, unmounted=world.volume)
        if world.container is ContainerState.NONE:
            yield "disk is unmounted", state._replace(world=away, budget=_less(budget, "unmounts"))
    if world.unmounted is not None and world.volume is None:
        yield "disk comes back", state._replace(world=world._replace(volume=world.unmounted, unmounted=None))


def _less(budget: Budget, what: str) -> Budget:
    return budget._replace(**{what: getattr(budget, what) - 1})
