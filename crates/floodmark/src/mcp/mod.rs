//! `floodmark mcp`: an MCP server that answers an assistant's questions about traces.
//!
//! A tool is a command: [`arguments`] makes its input schema from the command's options and converts a call to a
//! command line; [`tools`] calls the same function as the command. `structuredContent` is what `--json` prints, the
//! output schema is that of `floodmark schema`, and the text is what the command prints into a pipe. [`programs`] runs
//! programs in processes of their own. Every trace in the [`folders`] is a resource ([`resources`]).
//!
//! Only protocol messages go to stdout. The server reads no file outside the folders.

mod arguments;
mod folders;
mod lines;
mod programs;
mod progress;
pub(crate) mod refusal;
mod resources;
mod server;
mod tools;

use std::ffi::OsStr;
use std::io::{IsTerminal, stdin};

use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::io::stdio_pipes;

use crate::args::McpArgs;
use crate::text::failure::{Context, Failure, Result};
use crate::text::output;
use folders::Folders;
use lines::Lines;
use server::Server;

/// Serves until the client closes stdin.
pub(crate) fn mcp(args: &McpArgs, python: &OsStr) -> Result<String> {
    let server = Server::new(Folders::open(&args.paths)?, python, !args.read_only);
    if stdin().is_terminal() {
        output::note("An assistant starts this command and writes to it; end it with Ctrl-C\n");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("Failed to start the server")?;
    let ended = runtime.block_on(async {
        let (read, write) = stdio_pipes();
        match serve_server(server, Lines::new(read, write)).await {
            Ok(running) => running
                .waiting()
                .await
                .map(|_| ())
                .map_err(Failure::from_library)
                .context("the server failed"),
            // The client disconnected without a request.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => {
                Err(Failure::from_library(error)).context("stdin has no request of an MCP client")
            }
        }
    });
    // Do not wait for answers that nothing will read.
    runtime.shutdown_background();
    ended.context("Failed to answer on stdout").map(|()| String::new())
}
