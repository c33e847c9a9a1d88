"""Estimates a program before and after a change, and writes the comparison as Markdown.

Sees: the environment that `action.yml` sets, and the `floodmark` of this Python. Runs `floodmark
estimate` in both folders, then `floodmark diff` and `floodmark export`. Does not know GitHub beyond
the files that `GITHUB_OUTPUT` and `GITHUB_STEP_SUMMARY` name, and posts nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: How many lines of the program the comment lists.
ROWS = 10


@dataclass(frozen=True)
class Settings:
    """What the action was asked for."""

    program: list[str]
    options: list[str]
    base: Path
    head: Path
    results: Path
    artifact: str
    fail_above: str
    page: str

    @staticmethod
    def from_environment() -> Settings:
        get = os.environ.get
        options = ["--gpu", get("GPU", "h100"), "--steps", get("STEPS", "3")]
        results, use = new_folder(Path(os.environ["RESULTS"]).resolve())
        return Settings(
            program=shlex.split(os.environ["PROGRAM"]),
            options=options + shlex.split(get("OPTIONS", "")),
            base=Path(os.environ["BASE"]).resolve(),
            head=Path(os.environ["HEAD"]).resolve(),
            results=results,
            artifact=artifact_name(use),
            fail_above=get("FAIL_ABOVE", ""),
            page=get("PAGE", ""),
        )


@dataclass(frozen=True)
class Estimate:
    """The answer of `floodmark estimate` for one folder; `answer` is `None` if there is none."""

    folder: Path
    trace: Path
    answer: dict[str, Any] | None
    error: str

    @property
    def has_trace(self) -> bool:
        return self.trace.exists() and bool(self.answer and self.answer["devices"])

    def figure(self, name: str) -> int | None:
        """The highest figure of all devices."""
        devices = self.answer["devices"] if self.answer else []
        return max((device[name] for device in devices), default=None)

    def verdict(self) -> str:
        if self.answer is None or self.answer["fits"] is None:
            return "unknown"
        return "fits" if self.answer["fits"] else "does not fit"

    def commit(self) -> str:
        """The short name of the commit, if the folder is a checkout."""
        command = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        return f" `{done.stdout.strip()}`" if done.returncode == 0 else ""


def new_folder(root: Path) -> tuple[Path, int]:
    """A folder for the results of this use of the action in its job, and the number of the use."""
    for use in itertools.count(1):
        folder = root / str(use)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder, use
    raise AssertionError("the numbers do not end")


def artifact_name(use: int) -> str:
    """A name that no other job of the workflow run has: GitHub refuses a name twice."""
    parts = ["floodmark", os.environ.get("JOB", "")]
    if int(os.environ.get("MATRIX_TOTAL") or 1) > 1:
        parts.append(os.environ["MATRIX_INDEX"])
    if use > 1:
        parts.append(f"use{use}")
    return "-".join(part for part in parts if part)


def floodmark(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "floodmark", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def estimate(settings: Settings, folder: Path, name: str) -> Estimate:
    """Run the program of a folder on the simulated GPU. Its own output goes to our stderr."""
    trace = settings.results / f"{name}.flood"
    options = [*settings.options, "-o", str(trace), "--force", "--json", "--quiet"]
    done = floodmark("estimate", *options, *settings.program, cwd=folder)
    print(f"::group::{name}\n{done.stderr}::endgroup::", file=sys.stderr)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return Estimate(folder, trace, answer, lines[-1] if lines else "it printed nothing")


def size(count: int | None) -> str:
    if count is None:
        return "unknown"
    number, unit = float(abs(count)), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    digits = 0 if unit == "B" else max(0, 4 - len(str(int(number))))
    return f"{'−' if count < 0 else ''}{number:.{digits}f} {unit}"


def change(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return ""
    if before == after:
        return "none"
    percent = f" ({(after - before) / before:+.1%})" if before else ""
    sign = "+" if after > before else ""
    return f"{sign}{size(after - before)}{percent}".replace("(-", "(−").replace("%", " %")


def table(header: list[str], rows: list[list[str]], align: str) -> list[str]:
    marks = {"l": "---", "r": "---:"}
    lines = [header, [marks[kind] for kind in align], *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def code(text: str) -> str:
    """Text in a cell of a table, as it is."""
    return "`" + text.replace("`", "'").replace("|", "\\|").replace("\n", " ") + "`"


def peaks(base: Estimate, head: Estimate) -> list[str]:
    names = {
        "peak_allocated": "peak allocated",
        "peak_reserved": "peak reserved",
        "needed": "needed: reserved + outside torch",
    }
    rows = []
    for key, name in names.items():
        before, after = base.figure(key), head.figure(key)
        rows.append([name, size(before), size(after), change(before, after)])
    rows.append(["verdict", base.verdict(), head.verdict(), ""])
    header = ["", f"base{base.commit()}", f"this change{head.commit()}", "change"]
    return table(header, rows, "lrrr")


def location(row: dict[str, Any], head: Path) -> str:
    path = row.get("file")
    if not path:
        return "no Python frame"
    try:
        path = str(Path(path).relative_to(head))
    except ValueError:
        path = path.rpartition("site-packages/")[2]
    backward = " (backward)" if row.get("backward") else ""
    line, function = code(f"{path}:{row['line']}"), code(row["function"])
    return f"{line} {function}{backward}"


def grown_lines(answer: dict[str, Any], head: Path) -> list[str]:
    rows = [row for row in answer["rows"] if row["change"]]
    if not rows:
        return ["No line holds more or less at the peak."]
    cells = [
        [
            change(row["a"], row["b"]) or size(row["b"]),
            size(row["a"]),
            size(row["b"]),
            location(row, head),
        ]
        for row in rows
    ]
    lines = ["What changed at the peak, by line:", ""]
    return lines + table(["change", "base", "this change", "line"], cells, "rrrl")


def compare(
    settings: Settings, base: Estimate, head: Estimate
) -> tuple[dict[str, Any] | None, str]:
    """What `floodmark diff` answers, and its complaint if the peak grew too much."""
    if not (base.has_trace and head.has_trace):
        return None, ""
    limit = ["--fail-above", settings.fail_above] if settings.fail_above else []
    traces = [str(base.trace), str(head.trace)]
    done = floodmark("diff", *traces, "--json", "--top", str(ROWS), *limit, cwd=settings.head)
    try:
        answer: dict[str, Any] | None = json.loads(done.stdout)
    except ValueError:
        answer = None
    if answer is None or (done.returncode and not settings.fail_above):
        raise SystemExit(f"error: failed to compare the traces\n\n{done.stderr.strip()}")
    complaint = done.stderr.strip().removeprefix("error: ") if done.returncode else ""
    return answer, complaint


def comment(
    settings: Settings,
    base: Estimate,
    head: Estimate,
    answer: dict[str, Any] | None,
    complaint: str,
) -> str:
    devices = head.answer["devices"] if head.answer else []
    gpu = devices[0]["name"].partition(" (")[0] if devices else "GPU"
    program = shlex.join(settings.program)
    # A later run replaces the comment that begins with the same line; on another GPU it does not.
    identity = shlex.join([*settings.options, *settings.program])
    lines = [f"<!-- floodmark {identity.replace('--', '- -').replace(chr(34), chr(39))} -->"]
    lines += [f"### Memory of {code(program)} on a simulated {gpu}", "", *peaks(base, head), ""]
    for name, side in (("The base", base), ("This change", head)):
        if not side.has_trace:
            lines += [f"{name} gave no trace: {code(side.error)}", ""]
    if complaint:
        lines += [f"**Above the limit**: {complaint}", ""]
    if answer:
        lines += [*grown_lines(answer, settings.head), ""]
    if settings.page and head.has_trace:
        artifact = f"artifact `{settings.artifact}`"
        lines += [f"[The traces and the page]({settings.page}) ({artifact})", ""]
    return "\n".join(lines)


def append(variable: str, text: str) -> None:
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def main() -> None:
    settings = Settings.from_environment()
    # What there is then is kept also when something below fails.
    append("GITHUB_OUTPUT", f"results={settings.results}\nartifact={settings.artifact}\n")
    base = estimate(settings, settings.base, "base")
    head = estimate(settings, settings.head, "head")
    answer, complaint = compare(settings, base, head)
    if head.has_trace:
        page = str(settings.results / "page.html")
        floodmark("export", str(head.trace), "--to", "html", "-o", page, cwd=settings.head)
    text = comment(settings, base, head, answer, complaint)
    (settings.results / "comment.md").write_text(text, encoding="utf-8")
    append("GITHUB_STEP_SUMMARY", text)
    failure = "" if head.has_trace else f"this change gave no trace: {head.error}"
    outputs = {
        "peak-allocated": head.figure("peak_allocated") or "",
        "peak-reserved": head.figure("peak_reserved") or "",
        "grew": "true" if complaint else "false",
        # The action posts the comment before it fails.
        "problem": complaint or failure,
    }
    append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in outputs.items()))
    print(text)


if __name__ == "__main__":
    main()
