"""Every setting, read from the environment once. What each means, and its default: docs/settings.md.

`env_*` readers refuse nonsense with the variable's name, so that a typo is an error at start and not a surprise later.
"""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

KIB, MIB = 1024, 1024 * 1024
BASE_DIR = Path(__file__).resolve().parent.parent


def env_str(name: str, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def env_int(name: str, default: int) -> int:
    text = env_str(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}") from None


def env_bool(name: str, default: bool) -> bool:
    text = env_str(name, "yes" if default else "no").lower()
    if text in {"1", "yes", "true", "on"}:
        return True
    if text in {"0", "no", "false", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be yes or no, not {text!r}")
