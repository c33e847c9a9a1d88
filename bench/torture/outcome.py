"""The result of a part: counts that are printed, and faults that must be 0."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """The result of one part."""

    part: str
    #: Counts of what was done, by description.
    counts: dict[str, int] = field(default_factory=dict)
    #: Counts that must be 0.
    faults: dict[str, int] = field(default_factory=dict)
    #: A few words on each fault.
    details: list[str] = field(default_factory=list)
    #: What was not proven either way.
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def fault(self, what: str, detail: str) -> None:
        self.faults[what] = self.faults.get(what, 0) + 1
        if len(self.details) < 40:
            self.details.append(f"{what}: {detail}")

    @property
    def is_good(self) -> bool:
        return not any(self.faults.values())

    def lines(self) -> list[str]:
        """The outcome as text."""
        return [
            f"{self.part}: {self.seconds:.0f} s, {'as it must be' if self.is_good else 'FAULTS'}",
            *(f"  {number:>12,}  {what}" for what, number in self.counts.items()),
            *(f"  {number:>12,}  {what} (must be 0)" for what, number in self.faults.items()),
            *(f"  ! {line}" for line in self.details),
            *(f"  note: {line}" for line in self.notes),
        ]
