//! The server behind the page: one question a request, on loopback alone.
//!
//! ```text
//!  page ─► guard (host, token, headers) ─► ask (path → question) ─► answer (one call of analysis) ─► JSON, gzip
//!                                            │ same request, same revision: cache
//!  file grows ─► watch_files ─► news ─► follow (Server-Sent Events)
//! ```
//!
//! Connections are limited in number, and in the time that they may take to ask (`connections.rs`).
//!
//! [`router`] is a function of the [`Site`]; tests call it without a socket. Answers are computed on threads of
//! their own, so that a long one delays no other. A saved page is made of the same answers (`saved.rs`).

pub(crate) mod answer;
mod ask;
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
pub(crate) use shown::Shown;

/// Long answers at a time; more would only slow each other down.
const MOST_AT_ONCE: usize = 4;

/// What one viewer shows, and to whom.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shown: Shown<'static>,
    token: String,
    answers: Mutex<AnswerCache>,
    /// Counts changes of the traces.
    news: watch::Sender<u64>,
}

impl Site {
    /// A site for requests with this token.
    pub(crate) fn new(shown: Shown<'static>, token: String) -> Arc<Self> {
        let site =
            Arc::new(Self { shown, token, answers: Mutex::default(), news: watch::Sender::new(0) });
        if site.shown.follows {
            follow::watch_files(&site);
        }
        site
    }
}

/// All that the server answers.
pub(crate) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/{token}", get(respond::to_folder))
        .route("/{token}/", get(respond::index))
        .route("/{token}/page.js", get(respond::script))
        .route("/{token}/page.css", get(respond::style))
        .route("/{token}/api/follow", get(respond::follow))
        .route("/{token}/api/{*path}", get(respond::ask))
        .layer(from_fn_with_state(Arc::clone(&site), guard::guard))
        .with_state(site)
}

/// Serves until Ctrl-C or SIGTERM. `ready` gets the address as soon as the server listens there.
pub(crate) fn serve(site: Arc<Site>, port: u16, ready: impl FnOnce(&str)) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_AT_ONCE)
        .build()?;
    let result = runtime.block_on(async {
        // Loopback alone, whatever else the machine is called.
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        ready(&format!("http://{}/{}/", listener.local_addr()?, site.token));
        tokio::select! {
            never = serve_connections(listener, router(site), Limits::default()) => never,
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        }
    });
    // Answers that are still being computed, and pages that are still open, are not waited for.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests;
