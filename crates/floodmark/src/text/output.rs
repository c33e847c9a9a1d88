//! The only place that writes: data to stdout, talk to stderr. Colour goes to terminals alone.

use std::io::{self, ErrorKind, IsTerminal, Write};

use floodmark_text::terminal_safe::{escaped, obeyed_in_lines, safe_lines, sign};
use floodmark_trace::Losses;

use crate::text::exit_status::ExitStatus;
use crate::text::failure;
use crate::text::failure::Failure;

/// Writes the answer. Its styles are left out where stdout is no terminal.
pub(crate) fn data(text: &str) -> ExitStatus {
    write_to(anstream::stdout(), text)
}

/// Writes JSON or CSV, which other programs read: not a byte is changed. On a terminal, what it would obey is escaped as
/// JSON does; cells of CSV have nothing of it.
pub(crate) fn exact(text: &str) -> ExitStatus {
    if io::stdout().is_terminal() { write_to(raw(), &escaped(text)) } else { write_to(raw(), text) }
}

/// A reader that has seen enough (`| head`) is no failure.
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

/// For an answer that is not text, or too long to be held.
pub(crate) fn raw() -> io::StdoutLock<'static> {
    io::stdout().lock()
}

/// Text for a terminal, piece by piece: what the terminal would obey, but for the ends of lines, becomes a sign.
pub(crate) struct Harmless<W> {
    out: W,
    /// The beginning of a character whose rest has not come.
    rest: Vec<u8>,
}

impl<W: Write> Harmless<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for Harmless<W> {
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

/// Says why there is no answer.
pub(crate) fn failure(error: &Failure) -> ExitStatus {
    styled(&failure::message(error));
    ExitStatus::Wrong
}

/// Says what is wrong with the command line, in clap's words without styles, or shows the requested help.
pub(crate) fn usage(error: &clap::Error, unstyled: &str) -> ExitStatus {
    if !error.use_stderr() {
        // A failure here has no place to be reported.
        let _ = error.print();
        return ExitStatus::Done;
    }
    styled(&failure::usage_message(unstyled));
    ExitStatus::Wrong
}

/// Says what to do instead, where there is something.
pub(crate) fn hint(text: Option<&str>) {
    if let Some(text) = text {
        styled(&failure::hint_line(text));
    }
}

/// Says what is missing from a trace, beside an answer that has no place for it.
pub(crate) fn losses(losses: &Losses, name: &str) {
    for loss in &losses.0 {
        talk(&format!("! {name}{loss}\n"));
    }
}

/// Says something beside the answer. Names in it may come from a file or a path: a terminal obeys none of them.
pub(crate) fn talk(text: &str) {
    styled(&safe_lines(text));
}

/// The same with styles of ours; names in it are harmless already.
pub(crate) fn styled(text: &str) {
    // A failure here has no place to be reported.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_come_in_two_pieces() {
        let mut out = Vec::new();
        let mut harmless = Harmless::new(&mut out);
        for piece in ["größe\n\x1b[2J\t,".as_bytes(), &[0xc2], &[0x9b, b'3'], b"\r\n"] {
            harmless.write_all(piece).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), "größe\n␛[2J\t,\u{fffd}3\r\n");
    }
}
