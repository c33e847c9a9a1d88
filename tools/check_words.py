"""Keeps expressions out of the sources that a PyTorch engineer would not use.

Sees: the text files under version control. `WORDS` and `NAMES` have what is refused and what to
write instead. A phrase is found across two lines of a comment. Exit status 0 when there is none, 1
with one line for each.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tracked_files import tracked_files

SUFFIXES = {".rs", ".py", ".pyi", ".ts", ".tsx", ".mjs", ".md", ".toml", ".yml", ".sh"}
NAMES_OF_FILES = {"Makefile"}

# This list, its test, pages about the past, and what programs wrote.
EXEMPT = (
    "tools/check_words.py",
    "tools/tests/test_check_words.py",
    "CHANGELOG.md",
    "bench/results/*",
    "fixtures/*",
)

# A regular expression, and what to say instead. A space stands for any white space, also for the
# beginning of the next line of a comment.
WORDS = {
    r"asked-for": "requested",
    r"asked for in vain": "failed allocation",
    r"comes? into being": "is allocated",
    r"high.water": "peak",
    r"held up by": "pending free",
    r"of no use": "wasted",
    r"results are void": "computed values are meaningless",
    r"reserved, and all that is not": "reserved + CUDA context",
    r"that would not do for": "only … are free; … were requested",
    r"the program allowed itself": "limited by `set_per_process_memory_fraction`",
    r"stand for itself, not for": "attribute allocations to torch's own frames",
    r"whence|whilst|hereby|thereof|therein": "a plain word",
    r"of its own accord": "by itself",
    # The name of a user of Unix stands in quotes.
    r"nobody\b(?!\")": "what is unknown, or not done",
    r"whoever": "the caller, the reader: name it",
    r"let(?:s|ting)? go of": "free, freed",
    r"hand(?:s|ed|ing)? out": "allocate, or return",
    r"(?:that|which) (?:is|are|was|were) not there": "simulated, missing or not installed",
    r"(?:that|which|GPU) (?:is|was) played": "simulated",
    r"(?:real|large|smaller|another|one) cards?\b|the card (?:itself|has)": "GPU",
    r"(?:nothing|no (?:block|allocation|event|module)) tells of": "that no event names",
    r"the most that was (?:allocated|reserved|active)": "the peak of … bytes",
    r"free pieces?\b": "free block",
    r"what the program asked for|beyond what was asked for": "requested bytes",
    r"(?:is|are|was|were|been|be) told\b(?! apart)": "gets, receives: name what is passed",
    r"who writes it down": "the writer: name it",
    r"suret(?:y|ies)\b": "certainty",
    r"so many": "this many, a number of",
    r"c(?:ame|omes?) to be": "is, exists",
    r"attends? to": "runs, calls, handles",
    r"(?:is|are) content with": "accepts, needs",
    r"(?:is|are) (?:not |no )?the (?:\w+ )*business|\w+'s business|no business (?:of|with)": (
        "who does it, or that it is ignored"
    ),
    r"out of the program's sight": "hidden from the program",
    r"(?:is|are) said to": "is: name who states it",
    r"no place to be reported": "there is nowhere to report it",
    r"as far as we know": "if known",
    r"that we cannot": "which is not possible: name what cannot do it",
    r"handed on": "forwarded, passed",
    r"looks whether": "checks whether, returns whether",
    r"whose turn it is": "the next one",
    r"so (?:lately|long a time)": "within this time",
    r"(?:is|was) left to do": "the next action",
    r"hears? how": "is called with, receives",
    r"our fault": "an internal error",
    r"worked out": "computed",
    r"(?:is|are|was|were) taken to be": "is assumed to be",
    r"called off": "cancelled",
    r"for those who (?:do not )?see": "for screen readers",
    r"says? of itself": "its description, its notes: name them",
    r"as the name says": "what it does",
    r"takes? for itself": "its workspace",
    r"wh(?:o|at) (?:counts|is asked) of": "name it",
    r"first in, last out": "registered first, so it runs last",
    r"how high memory stood": "the peak",
    r"(?:lies?|are) nowhere": "has no address",
    r"most wanted first": "in order of priority",
    r"in place of which": "replaced by",
    r"to speak of": "defined, known",
    r"phantom H200": "simulated H200",
}

# Names in code, where upper and lower case count.
NAMES = {
    r"(?:struct|enum) (?:Said|LeftToDo|Harmless|Trouble)\b": (
        "what it is, such as `CommandOutput`, `NextAction` or `EscapingWriter`"
    ),
    r"let (?:mut )?said\b(?! = \"\")|fn said\b|[.]said\b": "what it has, such as `stderr`",
    r"objection\b": "`failure`",
    r"NotAn?(?:Axis|Grouping|Icicle|Moment|Range|Timeline)\b|NotFrames\b": "`InvalidValue`",
    r"record[.](?:stack|addr|bytes|requested|allocated|reserved)\b(?!\()": (
        "a reader or constructor of `Record` for its kind"
    ),
    r"(?:struct|enum|class|trait) (?:Page|Course|Pulse)\b": (
        "a noun of the domain, such as `AnswerText`, `OutputStyle` or `LiveSummary`"
    ),
    r"mod (?:pulse|place|look|plain|cut|vary|course|late|\w+_place);": (
        "a file named after its one thing"
    ),
    r"(?:class|struct|enum|trait|interface|type) (?:Place|Told|Plain|Look)\b": (
        "what it is, such as `TracePath` or `TileStyle`"
    ),
    r"(?:FLAG_TOLD|LineLook|RibbonLook)\b|[.](?:told|place)\b(?!\()": (
        "what it is, such as `fake_tensors`, `location`, `index` or `position`"
    ),
    r"\w+\[[\"'](?:where|place)[\"']\]": "the key `location`",
    r"(?<!\")(?:has|lay|is|of)_base\b|Base(?:Block|Segment)\b": "initial: `has_initial_blocks`",
    r"let (?:mut )?(?:plain|cut)\b": "what it has, such as `uncoloured` or `split_bytes`",
    r"(?:fn|def) _?(?:tell|told|look|pulse|course)\b\(": (
        "a verb with its object, such as `add_segment` or `allocate_results`"
    ),
    r"fn of(?:<[^>]*>)?\(": "`from_report`, `line_of`: what is made, or of what",
    r"(?:def|function) (?:_?let_|let[A-Z])\w+": "a verb of its own, such as `_support_module_to`",
    r"def (?!test_)\w*(?:give_way|out_of_sight|what_has_begun|stand_ins?)\b": (
        "`restore`, `without_program_state`, `replacements`: what it returns or does"
    ),
    r"function (?:Said|Cure|FreePieces|isCalledOff|standsAt\w+)\b": (
        "what it is, such as `ChosenRank`, `Remedy` or `isCancelled`"
    ),
    r"readonly says\b|\bsays=\{": "`hint`, `text` or `sentence`",
    **{
        rf"(?:\w+_)?(?:{part})(?:_\w+)?\b": instead
        for part, instead in {
            "lets?_go": "`free` or `release`",
            "(?:gave|gives?)_back": "`free`, `restore` or `return`",
            "hand(?:ed|s)?_out": "`allocate` or `new_descriptor`",
            "so_many": "`count`, or the number",
            "(?:is|are|was|were|be)_told(?!_apart)": "`is_given`, `is_reported`",
        }.items()
    },
    # Alone it is the name of a user of Unix.
    r"nobody_\w+|\w+_(?:nobody|whoever)(?:_\w+)?\b": "what is unknown, or not done; the caller",
    r"(?:fn|def) tells?_\w+|\w+_and_tell\b": "what it sets or returns: `set_phase_and_module`",
}

# White space, and what begins a line of a comment, a list or a string.
GAP = r"(?:\s|//[/!]?|#|\*|\\|\")+"


def compiled() -> list[tuple[re.Pattern[str], str]]:
    """The refused words and names as patterns that reach across lines."""
    words = [(word, instead, re.IGNORECASE) for word, instead in WORDS.items()]
    names = [(name, instead, re.RegexFlag(0)) for name, instead in NAMES.items()]
    return [
        (re.compile(rf"\b(?:{word.replace(' ', GAP)})", flags), instead)
        for word, instead, flags in words + names
    ]


PATTERNS = compiled()


def problems(path: str, text: str) -> Iterator[str]:
    """The refused words of a file, each with its line."""
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in EXEMPT):
        return
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            said = " ".join(match.group().split())
            yield f"{path}:{line}: `{said}`: say {instead}"


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    names = [
        name
        for name in tracked_files(root)
        if Path(name).suffix in SUFFIXES or Path(name).name in NAMES_OF_FILES
    ]
    found = [
        problem for name in names for problem in problems(name, (root / name).read_text("utf-8"))
    ]
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(f"words: {len(names)} files, none of the {len(PATTERNS)} refused expressions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
