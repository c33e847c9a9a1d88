//! The only place that writes: data to stdout, talk to stderr. Colour goes to terminals alone.

use std::io::{ErrorKind, Write};

use crate::{ExitStatus, failure};

/// Writes the answer. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn data(text: &str) -> ExitStatus {
    let mut out = anstream::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitStatus::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitStatus::Done,
        Err(error) => {
            talk(&failure::message(
                &anyhow::Error::new(error).context("Failed to write to stdout"),
            ));
            ExitStatus::Failed
        }
    }
}

/// For an answer that is not text, or too long to be held.
pub(crate) fn raw() -> std::io::StdoutLock<'static> {
    std::io::stdout().lock()
}

/// Says why there is no answer.
pub(crate) fn failure(error: &anyhow::Error) -> ExitStatus {
    talk(&failure::message(error));
    ExitStatus::Wrong
}

/// Says what is wrong with the command line, or shows the help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitStatus {
    // Nobody is left to tell when this fails.
    let _ = error.print();
    if error.use_stderr() { ExitStatus::Wrong } else { ExitStatus::Done }
}

/// Says what to do instead, where there is something.
pub(crate) fn hint(text: Option<&str>) {
    if let Some(text) = text {
        talk(&failure::hint_line(text));
    }
}

/// Says something beside the answer.
pub(crate) fn talk(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = anstream::stderr().write_all(text.as_bytes());
}
