"""What torch's out-of-memory messages mean, without a trace.

Talks to: `_core`. The answer is computed there.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.reports.trace import Answer

if TYPE_CHECKING:
    from floodmark.reports import answer_types


class OomMessages(Answer["answer_types.OomMessage", "answer_types.OomMessages"]):
    """What out-of-memory messages mean. Rows: the messages, in the order of the text."""

    _rows = "messages"

    @property
    def cause(self) -> answer_types.OomMessage:
        """The message that most likely caused the others."""
        return self.rows[self.to_dict()["cause"]]

    @property
    def device(self) -> str:
        """The device of the cause, such as `cuda:0`; empty where the message has none."""
        return str(self.cause["device"] or "")

    @property
    def why(self) -> str:
        """The reason: `capacity`, `fragmentation`, `outside_torch`, `limit`, `host_memory`, …."""
        return self.cause["reason"]


def explain_oom(message: str | BaseException) -> OomMessages:
    """What `floodmark oom -` prints, as a value: why an allocation failed, and what to try.

    `message` is torch's message, a log with messages in it, or the exception that torch raised.
    """
    if isinstance(message, BaseException):
        message = "".join(traceback.format_exception(message))
    return OomMessages(_core.explain_oom(message))
