//! `floodmark view`: a trace, to look at, in the browser.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::args::ViewArgs;
use crate::failure::Problem;
use crate::info::plural;
use crate::print;
use crate::server::{self, Shown, Site};

/// How often is looked for a file that is not there yet.
const REST: Duration = Duration::from_millis(200);

pub(crate) fn view(args: &ViewArgs) -> Result<String> {
    if args.follow {
        args.traces.iter().for_each(|path| wait_for(path));
    }
    let shown = Shown::open(&args.traces, args.follow)?;
    let count = plural(shown.traces.len() as u64, "trace");
    let token = server::new_token().context("Failed to make a token")?;
    let ready = |address: &str| {
        // The address is the answer, and there is no end to wait for.
        print::data(&format!("{address}\n"));
        print::talk(&format!("showing {count}; end with Ctrl-C\n"));
        if !args.no_open {
            open_browser(address);
        }
    };
    server::serve(Site::new(shown, token), args.port, ready).map_err(|error| {
        let failed = format!("Failed to listen on `127.0.0.1:{}`", args.port);
        if error.kind() == std::io::ErrorKind::AddrInUse {
            anyhow::Error::new(Problem::PortInUse).context(failed)
        } else {
            anyhow::Error::new(error).context(failed)
        }
    })?;
    Ok(String::new())
}

/// A program that was just started has not made its file yet, or not written into it.
fn wait_for(path: &Path) {
    let is_there = || path.metadata().is_ok_and(|found| found.is_dir() || found.len() > 0);
    if !is_there() {
        print::talk(&format!("waiting for `{}`\n", path.display()));
    }
    while !is_there() {
        std::thread::sleep(REST);
    }
}

/// Opens an address in the user's browser, where there is one.
fn open_browser(address: &str) {
    let Some(program) = browser() else { return };
    let quiet = || Stdio::null();
    let child =
        Command::new(program).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    if let Ok(mut child) = child {
        // Somebody has to be there when it ends.
        std::thread::spawn(move || child.wait());
    }
}

/// The program that opens addresses: what the user chose, or the desktop's. On a machine without a screen, nothing:
/// a browser of text would take the terminal away.
fn browser() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chosen = set("BROWSER").filter(|program| !program.contains([' ', ':', '%']));
    if chosen.is_some() {
        return chosen;
    }
    if cfg!(target_os = "macos") {
        return Some("open".to_owned());
    }
    set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY")).map(|_| "xdg-open".to_owned())
}
