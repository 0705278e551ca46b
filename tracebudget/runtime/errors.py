"""The one family of errors that keeps `up` from starting."""


class StartError(Exception):
    """Tracebudget cannot start. The text says what is wrong, and what to do about it."""
