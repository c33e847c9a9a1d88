//! Serves `GET /metrics` until Ctrl-C.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Sources;
use super::text::CONTENT_TYPE;
use crate::server::{Limits, is_for_this_machine, serve_connections};
use crate::text::output;

/// The state of the server.
struct MetricsServer {
    sources: Mutex<Sources>,
    /// Whether the address is loopback. Then a request with another `Host` is an attack (DNS rebinding).
    is_local: bool,
}

pub(super) fn serve(sources: Sources, address: SocketAddr) -> std::io::Result<()> {
    let server =
        MetricsServer { sources: Mutex::new(sources), is_local: address.ip().is_loopback() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        // Print the address now: the command runs until Ctrl-C.
        output::data(&format!("http://{}/metrics\n", listener.local_addr()?));
        output::note("serving figures for Prometheus; end with Ctrl-C\n");
        tokio::select! {
            never = serve_connections(listener, router(server), Limits::default()) => never,
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        }
    });
    // Do not wait for scrapes in progress.
    runtime.shutdown_background();
    result
}

fn router(server: MetricsServer) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(Arc::new(server))
}

async fn scrape(State(server): State<Arc<MetricsServer>>, headers: HeaderMap) -> Response {
    if server.is_local && !is_for_this_machine(&headers) {
        return (StatusCode::FORBIDDEN, "these figures are for `localhost` alone\n")
            .into_response();
    }
    // Reading a long trace takes time: do it on another thread.
    let answer = tokio::task::spawn_blocking(move || {
        let mut sources = server.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.newest_text()
    });
    match answer.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Ok(Err(error)) => {
            let message = format!("the trace cannot be read again: {error}\n");
            (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
