"""What clients tell the scheduler: trajectories open, change and close, actions are cancelled, resized, asked after."""

from __future__ import annotations

import time

from pydantic import TypeAdapter, ValidationError

from scheduler import facts
from scheduler.books import Books
from scheduler.core.events import Cancelled, TrajectoryClosed
from scheduler.entries import Entry
from scheduler.jobs import change
from scheduler.ledger import CANCEL_MEMORY
from scheduler.quotas import set_quota
from scheduler.residency import begin
from scheduler.resizing import asked_by_hand
from tangram_tasks import control_messages, orders
from tangram_tasks.egress import ChangeEgress, Egress, SetNetwork
from tangram_tasks.errors import ActionCancelled, InvalidAction, SandboxError, TangramError
from tangram_tasks.sharing import SetJob, SetQuota

_CONTROL: TypeAdapter[control_messages.ControlMessage] = TypeAdapter(control_messages.ControlMessage)


def read_control(payload: bytes) -> control_messages.ControlMessage:
    """Decode a control message. Raises InvalidAction, without its content: that may hold secrets."""
    try:
        return _CONTROL.validate_json(payload)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, row["loc"])) for row in error.errors()[:3])
        raise InvalidAction(f"a control message was refused: {fields}") from None


async def obey_control(books: Books, payload: bytes) -> None:
    """Do what a client asks for. Raises InvalidAction."""
    match read_control(payload):
        case control_messages.OpenTrajectory() as order:
            open_trajectory(books, order)
        case control_messages.CloseTrajectory(trajectory=trajectory):
            close_trajectory(books, trajectory, SandboxError(f"trajectory {trajectory} was closed"))
        case control_messages.CancelAction(action=action):
            await _cancel(books, action)
        case control_messages.ResizeRequest() as request:
            asked_by_hand(books, request)
        case SetNetwork() as wish:
            set_network(books, wish)
        case control_messages.PauseAdmission(paused=paused):
            books.paused = paused
            books.batch.pause(paused)
        case SetQuota() as order:
            set_quota(books, order)
        case SetJob() as order:
            await _set_job(books, order)
        case control_messages.ExplainAction() as question:
            books.questions.append(question)


def open_trajectory(books: Books, order: control_messages.OpenTrajectory) -> None:
    """Let a trajectory begin; one that is known, or was closed already, is left alone."""
    name = order.trajectory
    if name not in books.trajectories and name not in books.epitaphs:
        begin(books, order)


def close_trajectory(books: Books, trajectory: str, why: TangramError) -> None:
    """End a trajectory; what still waits for its sandbox fails with `why`. One that is unknown is left alone."""
    if trajectory in books.trajectories:
        books.bury(trajectory, why)
        books.feed(TrajectoryClosed(at=books.clock(), trajectory=trajectory, reason=str(why)))


def set_network(books: Books, wish: SetNetwork) -> None:
    """Change what a trajectory can reach; one that is unknown is left alone.

    Its node is told at once, for the sake of what runs already. Each grant says it again, so that no action starts
    without the change, whatever becomes of that order.
    """
    record = books.trajectories.get(wish.trajectory)
    if record is None:
        return
    if record.node:
        egress = Egress(network=wish.network, turn=record.egress.turn + 1 if record.egress else 1)
        record = record.model_copy(update={"egress": egress})
        books.batch.order(record.node, ChangeEgress(trajectory=wish.trajectory, egress=egress))
    else:
        record = record.model_copy(update={"order": record.order.model_copy(update={"network": wish.network})})
    books.trajectories[wish.trajectory] = record
    books.batch.trajectory(wish.trajectory, record)


async def _set_job(books: Books, order: SetJob) -> None:
    for action in change(books, order):
        await _cancel(books, action)
    if order.state == "cancelled":
        for name, record in list(books.trajectories.items()):
            if record.order.job == order.job:
                close_trajectory(books, name, ActionCancelled(f"job {order.job} was cancelled"))


async def _cancel(books: Books, action: str) -> None:
    entry = books.entries.by_action.get(action)
    if entry is None:  # over, or still on its way
        books.remember_cancelled(action, time.time() + CANCEL_MEMORY)
    elif entry.grant is None or entry.record is None:
        await end_revoked(books, entry, "cancelled")
    else:
        entry.cancelled = True
        books.batch.order(entry.record.node, orders.KillAction(action=action, grant=entry.grant))


async def end_revoked(books: Books, entry: Entry, reason: str) -> None:
    """End a waiting action as revoked: its caller first, then the ledger."""
    await books.outcomes.revoke(entry.envelope, reason)
    books.tell(facts.Refused(entry.envelope, reason))
    books.feed(Cancelled(at=books.clock(), action=entry.envelope.action))
    books.batch.drop(entry.seq)
    books.entries.forget(entry)
