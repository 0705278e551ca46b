"""What can go wrong with a delivery."""

from __future__ import annotations


class DeliveryError(Exception):
    """A message did not get through. The text is for the delivery log, without secrets.

    `is_permanent`: to try again would not help. `retry_after`: seconds that the other side asked
    for, None if it did not.
    """

    def __init__(
        self, text: str, *, is_permanent: bool = False, retry_after: int | None = None
    ) -> None:
        super().__init__(text)
        self.is_permanent = is_permanent
        self.retry_after = retry_after
