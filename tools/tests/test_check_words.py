"""Which words `check_words` refuses, and where."""

from __future__ import annotations

import pytest
from check_words import problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Bytes asked for in vain.", "asked for in vain"),
        ("a\n/// bytes asked for\n/// in vain", "asked for /// in vain"),
        ("# The High-Water mark", "High-Water"),
        ("pub(crate) struct Pulse {", "struct Pulse"),
        ("class Look:", "class Look"),
        ("mod pulse;", "mod pulse;"),
        ("mod course;", "mod course;"),
        ("mod tensor_place;", "mod tensor_place;"),
        ("class Place:", "class Place"),
        ("    pub(crate) fn told(&self) -> Problem {", "fn told("),
        ("def tell(step: int) -> None:", "def tell("),
        ("export interface Look {", "interface Look"),
        ("    if window.told {", ".told"),
        ("    rows.sort_by_key(|row| row.place);", ".place"),
        ('print(row["where"])', 'row["where"]'),
        ("mod late;", "mod late;"),
        ("    pub has_base: bool,", "has_base"),
        ("        let mut plain = Vec::new();", "let mut plain"),
        ("/// Who writes it down.", "Who writes it down"),
        ("# the process is\n# told its rank", "is # told"),
        ("def surety(self) -> int:", "surety"),
        ("    def _look(self, name):", "def _look("),
        ("    fn of(report: &Report) -> Self {", "fn of("),
        ("    pub(crate) fn of<I: Index>(", "fn of<I: Index>("),
        ("Nobody's: kept in the cache.", "Nobody"),
        ("for whoever wants to look", "whoever"),
        ("// it was let go\n// of by the program", "let go // of"),
        ("/// A block was handed out.", "handed out"),
        ("GPUs that are\nnot there", "that are not there"),
        ("the card has 80 GiB", "the card has"),
        ("/// The most that was allocated.", "The most that was allocated"),
        ("/// After so\n/// many events.", "so /// many"),
        ("/// Whether that came to be.", "came to be"),
        ("# Python attends to it.", "attends to"),
        ("// It is content with any object.", "is content with"),
        ("/// That is the writer's business.", "writer's business"),
        ("//! How large it is is the business of the model.", "is the business"),
        ("# A proxy has no business with it.", "no business with"),
        ("/// Calls it, out of the program's sight.", "out of the program's sight"),
        ("# Where it is said to lie.", "is said to"),
        ("    fn let_go(&mut self) {", "let_go"),
        ("def test_memory_is_let_go_of():", "test_memory_is_let_go_of"),
        ("        gave_back += 1", "gave_back"),
        ("    self.library.give_back();", "give_back"),
        ("    unsafe { hand_out(to) }", "hand_out"),
        ("fn after_so_many_events() {", "after_so_many_events"),
        ("for_whoever = 1", "for_whoever"),
        ("fn what_is_missing_is_told() {", "what_is_missing_is_told"),
        ("def test_nobody_waits():", "test_nobody_waits"),
        ("fn linked_by_nobody() {", "linked_by_nobody"),
        ("pub(crate) fn tell_work(at: u32) {", "fn tell_work"),
        ("unsafe fn make_and_tell(handle: i32) {", "make_and_tell"),
        ("// A failure here has no place\n// to be reported.", "no place // to be reported"),
        ("/// torch's total, as far as we know it.", "as far as we know"),
        ("/// Written by a process that we cannot see.", "that we cannot"),
        ("/// Why a line is not handed on.", "handed on"),
        ("/// Looks whether it grew.", "Looks whether"),
        ("    /// Whose turn it is to be read.", "Whose turn it is"),
        ("/// A file that has grown so lately.", "so lately"),
        ("/// Returns what is left to do.", "is left to do"),
        ("/// The caller hears how much is used.", "hears how"),
        ("// It panicked: that is our fault.", "our fault"),
        ("pub(crate) struct Said {", "struct Said"),
        ("pub enum LeftToDo {", "enum LeftToDo"),
        ("    let said = description(schema);", "let said"),
        ("    fn said(&self) -> String {", "fn said"),
        ("    planned.said.print();", ".said"),
        ("    Ok(Output { objection, text })", "objection"),
        ("pub struct NotAnAxis;", "NotAnAxis"),
        ("    record.stack = label;", "record.stack"),
    ],
)
def test_a_refused_word_is_named_with_its_line(text, said):
    (problem,) = problems("crates/one/src/lib.rs", text)
    line = 2 if text.startswith("a\n") else 1
    assert problem.startswith(f"crates/one/src/lib.rs:{line}: `{said}`: say ")


@pytest.mark.parametrize(
    "text",
    [
        "in vain",
        "struct Pages {",
        "a place to look",
        "impulse; mod pulses;",
        "fn line_of(&self)",
        "fn of_torch(kind: &str)",
        "fn look_up(&mut self)",
        "self.space.place(bytes)",
        "the two are told apart",
        "fn steps_are_told_apart() {",
        'pwd.getpwnam("nobody")',
        "let giveback = out;",
        "def letters(text: str) -> int:",
        "function lettersOf(text) {}",
        "the row says so",
        "the program's sights",
        "record.stack()",
        "ordinary words said aloud",
    ],
)
def test_other_words_are_fine(text):
    assert list(problems("docs/a.md", text)) == []


def test_the_past_is_not_rewritten():
    assert list(problems("CHANGELOG.md", "asked for in vain")) == []
