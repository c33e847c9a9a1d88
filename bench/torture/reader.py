"""A worker of the part `files`: damages files and asks every command about them, one number after
the other.

Reads numbers from stdin. Writes a line of JSON for each: the verdicts, and every answer that is
not allowed. Before each command it writes the number and the words into a file, so that the
parent can name what hangs or kills this process.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
from pathlib import Path

from torture.commands import Answer, Capture, command_lines, verdict, with_output
from torture.mutations import mutated
from torture.seeds import Seed, copy, used_bytes

#: More address space than any of these small files needs.
_MOST_MEMORY = 8 << 30


class Reader:
    """The folder of one worker, and the answers about whole files, which are asked for once."""

    def __init__(self, folder: Path, seeds: list[Seed]) -> None:
        self._folder = folder
        self._seeds = seeds
        self._capture = Capture()
        self._whole: dict[tuple[int, tuple[str, ...]], Answer] = {}
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        self._status = (folder / "now").open("w")

    def _note(self, number: int, words: list[str]) -> None:
        self._status.seek(0)
        self._status.truncate()
        self._status.write(json.dumps([number, words]))
        self._status.flush()

    def _ask(self, words: list[str]) -> Answer:
        answer = self._capture.run(words)
        return with_output(answer, Path("out")) if words[0] == "export" else answer

    def _about_whole(self, index: int, words: list[str]) -> Answer:
        key = (index, tuple(words))
        if key not in self._whole:
            first, second = self._ask(words), self._ask(words)
            assert first == second, f"{words} does not answer twice the same: {first} {second}"
            self._whole[key] = first
        return self._whole[key]

    def damage(self, number: int) -> Seed:
        """Put the damaged file of a number into `x`, the whole one into `whole`."""
        chance = random.Random(number)
        seed = self._seeds[number % len(self._seeds)]
        copy(seed, Path("x"))
        target = Path("x") / chance.choice(seed.targets)
        data = target.read_bytes()
        used = used_bytes(data)
        target.write_bytes(mutated(data[:used], chance) + data[used:])
        return seed

    def ask_all(self, number: int) -> dict[str, object]:
        """Damage one file, and ask every command about it."""
        index = number % len(self._seeds)
        seed = self._seeds[index]
        lines = command_lines(f"x/{seed.name}", f"whole/{seed.name}", number)
        copy(seed, Path("whole"))
        copy(seed, Path("x"))
        whole = [self._about_whole(index, words) for words in lines]
        self.damage(number)
        verdicts: dict[str, int] = {}
        bad = []
        for words, expected in zip(lines, whole, strict=True):
            self._note(number, words)
            answer = self._ask(words)
            found = verdict(expected, answer)
            if found == "silent" and not seed.has_checksum:
                found = "silent_plain"
            verdicts[found] = verdicts.get(found, 0) + 1
            if found in ("failed", "silent"):
                said = (answer.stderr or answer.stdout).decode(errors="replace")[:1000]
                bad.append({"number": number, "words": words, "verdict": found, "said": said})
        return {"number": number, "kind": seed.kind, "verdicts": verdicts, "bad": bad}


def main() -> None:
    """Answer for every number on stdin."""
    folder, seeds = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reader = Reader(
        folder,
        [
            Seed(one["kind"], Path(one["folder"]), one["name"], tuple(one["targets"]), one["sum"])
            for one in seeds
        ],
    )
    for line in sys.stdin:
        print(json.dumps(reader.ask_all(int(line))), flush=True)


if __name__ == "__main__":
    main()
