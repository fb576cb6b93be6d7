"""What goes on behind the clients of a history: heartbeats, time, housekeeping, administration."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from tests.simulation.scheduler import Killed
from tests.simulation.world import World


def spawn_background(world: World, *, is_calm: bool) -> None:
    """The actors that go on until all clients have ended; where ``is_calm`` all heartbeats are
    sent, no time is lost, and nobody aborts transactions.
    """
    for name, work in (
        ("hearts", _hearts),
        ("time", _time),
        ("reaper", _reaper),
        ("administrator", _administrator),
    ):
        world.scheduler.spawn(name, partial(work, world, is_calm), background=True)


def _hearts(world: World, is_calm: bool) -> None:
    """Sends the heartbeats of all clients that live."""
    while not world.scheduler.is_ending:
        world.scheduler.sleep_s(100)
        for client in world.clients:
            if not client.is_dead and (is_calm or world.random.random() < 0.9):
                world.scheduler.owner = client
                with suppress(Killed):
                    client.connection.transactions.heartbeat.beat()


def _time(world: World, is_calm: bool) -> None:
    """Lets much of it pass at once."""
    random = world.random
    while not world.scheduler.is_ending:
        world.scheduler.sleep_s(random.choice((1, 10, 100)))
        if random.random() < 0.2 and not is_calm:
            world.clock.advance_ms(random.choice((10_000, 200_000, 400_000)))


def _reaper(world: World, is_calm: bool) -> None:
    del is_calm
    while not world.scheduler.is_ending:
        world.scheduler.sleep_s(world.random.choice((5, 50, 200)))
        world.metastore.perform_timeouts()
        world.metastore.run_housekeeping(interval_s=0)


def _administrator(world: World, is_calm: bool) -> None:
    while not world.scheduler.is_ending:
        world.scheduler.sleep_s(world.random.choice((10, 100)))
        found = [one.id for one in world.metastore.show_txns() if one.reason is None]
        if found and world.random.random() < 0.3 and not is_calm:
            victim = world.random.choice(found)
            world.note(f"txn {victim} is aborted by an administrator")
            world.metastore.abort_txns([victim])
