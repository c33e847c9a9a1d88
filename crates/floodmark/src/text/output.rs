//! Writes all output: answers to stdout, messages to stderr. Only terminals get colours.

use std::io::{self, ErrorKind, IsTerminal, Write};

use floodmark_text::terminal_safe::{escaped, obeyed_in_lines, safe_lines, sign};
use floodmark_trace::Losses;

use crate::text::exit_status::ExitStatus;
use crate::text::failure;
use crate::text::failure::Failure;

/// Writes an answer. Leaves out its styles if stdout is not a terminal.
pub(crate) fn data(text: &str) -> ExitStatus {
    write_to(anstream::stdout(), text)
}

/// Writes JSON or CSV without changes, for other programs. On a terminal, escapes control characters as JSON does;
/// cells of CSV have none.
pub(crate) fn exact(text: &str) -> ExitStatus {
    if io::stdout().is_terminal() { write_to(raw(), &escaped(text)) } else { write_to(raw(), text) }
}

/// Writes all of a text. A closed pipe (`| head`) is not an error.
fn write_to(mut out: impl Write, text: &str) -> ExitStatus {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitStatus::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitStatus::Done,
        Err(error) => {
            styled(&failure::message(&Failure::from(error).context("Failed to write to stdout")));
            ExitStatus::Failed
        }
    }
}

/// stdout, for an answer that is not text, or too long for memory.
pub(crate) fn raw() -> io::StdoutLock<'static> {
    io::stdout().lock()
}

/// A writer for a terminal that replaces control characters, except line ends, by visible signs.
pub(crate) struct EscapingWriter<W> {
    out: W,
    /// The first bytes of a character whose rest was not written yet.
    rest: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let rest = self.rest.split_off(whole);
        let text = String::from_utf8_lossy(&self.rest);
        let signs =
            text.chars().map(|letter| if obeyed_in_lines(letter) { sign(letter) } else { letter });
        self.out.write_all(signs.collect::<String>().as_bytes())?;
        self.rest = rest;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints an error.
pub(crate) fn failure(error: &Failure) -> ExitStatus {
    styled(&failure::message(error));
    ExitStatus::Wrong
}

/// Prints clap's error, given without styles, or the requested help.
pub(crate) fn usage(error: &clap::Error, unstyled: &str) -> ExitStatus {
    if !error.use_stderr() {
        // Ignore the error: there is nowhere to report it.
        let _ = error.print();
        return ExitStatus::Done;
    }
    styled(&failure::usage_message(unstyled));
    ExitStatus::Wrong
}

/// Prints a hint if there is one.
pub(crate) fn hint(text: Option<&str>) {
    if let Some(text) = text {
        styled(&failure::hint_line(text));
    }
}

/// Prints the losses of a trace, for an answer without a field for them.
pub(crate) fn losses(losses: &Losses, name: &str) {
    for loss in &losses.0 {
        note(&format!("! {name}{loss}\n"));
    }
}

/// Prints a message. Escapes control characters: names in it may come from a file or a path.
pub(crate) fn note(text: &str) {
    styled(&safe_lines(text));
}

/// Prints a message with styles, whose names are escaped already.
pub(crate) fn styled(text: &str) {
    // Ignore the error: there is nowhere to report it.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_come_in_two_pieces() {
        let mut out = Vec::new();
        let mut writer = EscapingWriter::new(&mut out);
        for piece in ["größe\n\x1b[2J\t,".as_bytes(), &[0xc2], &[0x9b, b'3'], b"\r\n"] {
            writer.write_all(piece).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), "größe\n␛[2J\t,\u{fffd}3\r\n");
    }
}
