"""Everything beside the leaders: the Observer, the storage job, the person, and what breaks."""

from collections.abc import Iterator

from codehub.domain.observation import observe
from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from tests.model import decisions, runtime
from tests.model.rules import Rules
from tests.model.state import GIVEN_UP, Budget, Leader, Look, Row, State, content_of

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
    resources = state.resources
    look = Look(resources.container, resources.volume is not None, fresh=row.acted)
    may_become_news = row.operation is not Operation.NONE or row.terminal
    if may_become_news or _observed(row, look) != row:
        yield "Observer looks", state._replace(look=look)


def _deleted_is_final(row: Row, rules: Rules) -> bool:
    return row.operation is Operation.NONE or not rules.deleted_at_rest


def _observed(row: Row, look: Look) -> Row:
    observed = observe(
        container=look.container,
        volume=look.volume,
        deleted=row.deleted,
        terminal_error=row.terminal,
    )
    error = "broken" if observed.broken is not None and row.error is None else row.error
    return row._replace(
        observed=observed.observed_status,
        health_error=observed.health_status.value == "ERROR",
        error=error,
        fresh=look.fresh and row.acted,
    )


def storage_job(state: State) -> Iterator[Step]:
    if state.resources.job is not None:
        yield "job goes on", state._replace(resources=runtime.advance_job(state.resources))


def person(state: State, intents: tuple[str, ...], rules: Rules) -> Iterator[Step]:
    row, budget = state.row, state.budget
    if row.deleted:
        return
    if budget.intents:
        spent = budget._replace(intents=budget.intents - 1)
        for intent in intents:
            if (changed := _intent(row, intent)) != row:
                yield f"person intents {intent}", state._replace(row=changed, budget=spent)
    if (
        budget.edits
        and state.resources.container is ContainerState.RUNNING
        and state.resources.volume is not None
    ):
        resources = state.resources._replace(volume=state.newest + 1)
        spent = budget._replace(edits=budget.edits - 1)
        yield "person edits", state._replace(resources=resources, newest=state.newest + 1, budget=spent)
    if budget.recoveries and (row.terminal or row.given_up):
        yield "person recovers", recover(state, rules)
    if budget.choices and _may_choose(row):
        spent = budget._replace(choices=budget.choices - 1)
        for key, _ in state.resources.archives:
            yield (
                f"person chooses {key}",
                state._replace(row=decisions.chosen(row, key, rules), look=_lifted(state), budget=spent),
            )
        if row.restore_from is not None:
            yield "person stays", state._replace(row=row._replace(restore_from=None), budget=spent)
    if budget.snapshots and row.error is None and row.desired is not DesiredState.RUNNING:
        spent = budget._replace(snapshots=budget.snapshots - 1)
        if not row.snapshot and (
            row.mark or row.archive_key is None
        ):  # else the archive that is there is named
            yield "person wants a snapshot", state._replace(row=row._replace(snapshot=True), budget=spent)
        elif row.snapshot:
            yield "person wants none", state._replace(row=row._replace(snapshot=False), budget=spent)
    if budget.returns and _home_is_out_of_reach(state):
        yield "person returns to the archive", return_to_archive(state, rules)


def _may_choose(row: Row) -> bool:
    """Not where what exists is not what should: ``WorkspaceView.may_return``."""
    return row.error in (None, "retrying", GIVEN_UP, "failed")


def _lifted(state: State) -> Look | None:
    """Only a look begun after an error was lifted turns health back."""
    return None if state.row.terminal else state.look


def recover(state: State, rules: Rules) -> State:
    """Told that the volume vanished, a person who recovers accepts the loss: the archive is the home."""
    row, resources, newest = state.row, state.resources, state.newest
    accepted = row.error == "vanished" and row.health_error
    if accepted and resources.volume is None:
        newest = content_of(resources, row.archive_key) or 0
        resources = resources._replace(unmounted=None)
    row = decisions.recovered(row, rules)
    look = state.look
    if rules.look_after_recovery:
        look = None
    budget = state.budget._replace(recoveries=max(0, state.budget.recoveries - 1))
    return state._replace(row=row, resources=resources, newest=newest, look=look, budget=budget)


def _home_is_out_of_reach(state: State) -> bool:
    """Any failure may have been "its node does not take it", which is only ever said where nothing runs."""
    row, container = state.row, state.resources.container
    failed = (row.error == "failed" or row.given_up) and row.operation is Operation.NONE
    asleep = row.observed is ObservedStatus.STANDBY and container is ContainerState.NONE
    return failed and asleep and row.archive_key is not None


def return_to_archive(state: State, rules: Rules) -> State:
    """The home is out of reach: a person gives up what is newer than the archive. It may come back all the same."""
    newest = content_of(state.resources, state.row.archive_key)
    assert newest is not None
    return state._replace(
        row=decisions.returned_to_archive(state.row, rules),
        newest=newest,
        look=None,
        budget=state.budget._replace(returns=state.budget.returns - 1),
    )


def _intent(row: Row, intent: str) -> Row:
    if intent == "delete":
        return row._replace(deleted=True)
    if intent == "stop" and row.desired is DesiredState.PENDING:
        return row  # refused: a stop must not restore
    return row._replace(desired=INTENTS[intent])


def faults(state: State) -> Iterator[Step]:
    budget, resources = state.budget, state.resources
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
    if budget.crashes and resources.container is ContainerState.RUNNING:
        dead = resources._replace(container=ContainerState.DEAD)
        yield "container dies", state._replace(resources=dead, budget=_less(budget, "crashes"))
    if budget.failures and resources.job is not None:
        yield (
            "job dies",
            state._replace(resources=resources._replace(job=None), budget=_less(budget, "failures")),
        )
    if budget.unmounts and resources.volume is not None and resources.job is None:
        away = resources._replace(volume=None, unmounted=resources.volume)
        if resources.container is ContainerState.NONE:
            yield "disk is unmounted", state._replace(resources=away, budget=_less(budget, "unmounts"))
    if resources.unmounted is not None and resources.volume is None:
        yield (
            "disk comes back",
            state._replace(resources=resources._replace(volume=resources.unmounted, unmounted=None)),
        )


def _less(budget: Budget, what: str) -> Budget:
    return budget._replace(**{what: getattr(budget, what) - 1})
