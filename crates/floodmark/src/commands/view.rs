//! `floodmark view`: shows traces in the browser.

use std::path::Path;
use std::time::Duration;

use floodmark_files::traces::is_irregular;
use floodmark_text::plural::plural;

use crate::args::ViewArgs;
use crate::server::browser::{Redirect, browser, open_browser};
use crate::server::{self, Server, ShownTraces};
use crate::text::failure::{Context, Failure, Problem, Result};
use crate::text::output;
use crate::traces::trace_paths::named_or_newest;

/// How often to check whether a file exists.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn view(args: &ViewArgs) -> Result<String> {
    let traces = match args.traces.as_slice() {
        [] => vec![named_or_newest(None)?],
        named => named.to_vec(),
    };
    if args.follow {
        for path in &traces {
            wait_for(path);
        }
    }
    let shown = ShownTraces::open(&traces, args.follow)?;
    let count = plural(shown.traces.len() as u64, "trace");
    let token =
        server::new_token().map_err(Failure::from_library).context("Failed to create a token")?;
    let mut redirect = None;
    let ready = |address: &str| {
        // Print the address now: the command runs until Ctrl-C.
        output::data(&format!("{address}\n"));
        output::note(&format!("showing {count}; end with Ctrl-C\n"));
        if let Some(program) = browser().filter(|_| !args.no_open)
            && let Ok(file) = Redirect::to(address)
        {
            open_browser(&program, &file);
            redirect = Some(file);
        }
    };
    server::serve(Server::new(shown, token), args.port, ready).map_err(|error| {
        let failed = format!("Failed to listen on `127.0.0.1:{}`", args.port);
        if error.kind() == std::io::ErrorKind::AddrInUse {
            Failure::from(Problem::PortInUse).context(failed)
        } else {
            Failure::from(error).context(failed)
        }
    })?;
    Ok(String::new())
}

/// Waits for the trace of a program that has just started.
fn wait_for(path: &Path) {
    let is_there = || {
        is_irregular(path) || path.metadata().is_ok_and(|found| found.is_dir() || found.len() > 0)
    };
    if !is_there() {
        output::note(&format!("waiting for `{}`\n", path.display()));
    }
    while !is_there() {
        std::thread::sleep(POLL_INTERVAL);
    }
}
