"""A conversation as a model reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One message behind those before it. Two prompts that share messages share the objects, so the
    same object is the same prefix.
    """

    role: str
    text: str
    tokens: int  # of this message and all before it
    before: Prompt | None = None

    def plus(self, role: str, text: str, tokens: int) -> Prompt:
        """This prompt and one more message of `tokens` tokens."""
        return Prompt(role, text, self.tokens + tokens, self)

    def messages(self) -> list[Prompt]:
        """From the first message to this one."""
        found: list[Prompt] = []
        message: Prompt | None = self
        while message is not None:
            found.append(message)
            message = message.before
        return found[::-1]

    def rewritten(self) -> Prompt:
        """The same words, all but the first message written anew: no known prefix but that one."""
        first, *others = self.messages()
        prompt = before = first
        for message in others:
            prompt = prompt.plus(message.role, message.text, message.tokens - before.tokens)
            before = message
        return prompt
