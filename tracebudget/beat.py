"""Celery beat's scheduler, with one rule more: no new tick while old ones wait.

An expired message stays in the broker until a worker throws it away, so a week without workers
would leave 600 MB of ticks there, and ten minutes of work to throw them away before the first trace
is analysed.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from kombu import Producer
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)
MAX_WAITING = 5  # one is enough for a free worker; a few more even out a busy one


class PatientScheduler(Scheduler):
    """Skips what is due while messages wait or the broker is away: the next tick does the same."""

    _is_broker_away = False

    def apply_async(
        self,
        entry: ScheduleEntry,
        producer: Producer | None = None,
        advance: bool = True,
        **kwargs: Any,
    ) -> Any:
        connection = self.connection
        away: Any = (OperationalError, *connection.connection_errors)
        try:
            channel: Any = connection.default_channel  # kombu's types know no channel's methods
            queue = channel.queue_declare(self.app.conf.task_default_queue)
        except away as error:
            self._note_broker_away(error)
            return None
        self._is_broker_away = False
        if queue.message_count >= MAX_WAITING:
            return None
        return super().apply_async(entry, producer, advance, **kwargs)

    def _note_broker_away(self, error: BaseException) -> None:
        """Say it once, not once a second."""
        if not self._is_broker_away:
            logger.warning("The broker does not answer; no ticks until it does: %s", error)
        self._is_broker_away = True
