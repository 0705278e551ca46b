"""A day of made-up traffic that is made up by simulating: agents that loop, prompts that grow, a
model service with a cache and a queue, and faults that bend one thing each.

Reading order: `work` (what happened), `prompt`, `schedule`, `inference`, `task`, `agent`, `fault`,
the three apps (`support`, `coding`, `nightly`), `day`; then `dialects` and `sender`, which say it
in spans.
"""
