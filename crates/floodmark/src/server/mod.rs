//! The server behind the page: one question per request, on loopback only.
//!
//! ```text
//!  page ─► guard (host, token, headers) ─► api_request (path → request) ─► answer (one call of analysis) ─► JSON, gzip
//!                                                    │ same request, same revision: cache
//!  file grows ─► watch_files ─► news ─► follow (Server-Sent Events)
//! ```
//!
//! `connections.rs` limits the number of connections, and the time to send a request.
//!
//! [`router`] is a function of the [`Server`]; tests call it without a socket. Answers are computed on separate threads,
//! so that a long one delays no other. A saved page has the same answers (`saved.rs`).

pub(crate) mod answer;
mod api_request;
mod assets;
pub(crate) mod browser;
mod cache;
mod connections;
pub(crate) mod follow;
mod guard;
mod made_once;
pub(crate) mod refusal;
mod respond;
mod saved;
mod saved_document;
mod saved_moments;
mod shown;
pub(crate) mod source;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use cache::AnswerCache;
pub(crate) use connections::{Limits, serve_connections};
pub(crate) use guard::{is_for_this_machine, new_token};
pub(crate) use saved::save;
pub(crate) use shown::ShownTraces;

/// The most answers computed at a time: more would slow each other down.
const MOST_AT_ONCE: usize = 4;

/// The state of the server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shown: ShownTraces<'static>,
    token: String,
    answers: Mutex<AnswerCache>,
    /// Counts changes of the traces.
    news: watch::Sender<u64>,
}

impl Server {
    /// A server for requests with this token.
    pub(crate) fn new(shown: ShownTraces<'static>, token: String) -> Arc<Self> {
        let server =
            Arc::new(Self { shown, token, answers: Mutex::default(), news: watch::Sender::new(0) });
        if server.shown.follows {
            follow::watch_files(&server);
        }
        server
    }
}

/// The routes of the server.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/{token}", get(respond::to_folder))
        .route("/{token}/", get(respond::index))
        .route("/{token}/page.js", get(respond::script))
        .route("/{token}/page.css", get(respond::style))
        .route("/{token}/api/follow", get(respond::follow))
        .route("/{token}/api/{*path}", get(respond::api_answer))
        .layer(from_fn_with_state(Arc::clone(&server), guard::guard))
        .with_state(server)
}

/// Serves until Ctrl-C or SIGTERM. Calls `ready` with the address once the server listens there.
pub(crate) fn serve(
    server: Arc<Server>,
    port: u16,
    ready: impl FnOnce(&str),
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_AT_ONCE)
        .build()?;
    let result = runtime.block_on(async {
        // Bind to loopback only.
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        ready(&format!("http://{}/{}/", listener.local_addr()?, server.token));
        tokio::select! {
            never = serve_connections(listener, router(server), Limits::default()) => never,
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        }
    });
    // Do not wait for answers in progress or open pages.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests;
