//! Progress notifications of a call: the lines that its program prints.

use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};

/// Sends progress notifications to the client, if it gave a token for them.
pub(super) struct Progress {
    client: Option<(ProgressToken, Peer<RoleServer>)>,
    lines_sent: AtomicU64,
}

impl Progress {
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let client = token.map(|token| (token, context.peer.clone()));
        Self { client, lines_sent: AtomicU64::new(0) }
    }

    /// Sends a line that the program printed.
    pub(super) async fn send(&self, line: &str) {
        let line = line.trim();
        let Some((token, peer)) = self.client.as_ref().filter(|_| !line.is_empty()) else { return };
        let line_number = self.lines_sent.fetch_add(1, Ordering::Relaxed) + 1;
        // The protocol wants a floating point number.
        let progress_value = f64::from(u32::try_from(line_number).unwrap_or(u32::MAX));
        let progress = ProgressNotificationParam::new(token.clone(), progress_value);
        // A client that disconnected has cancelled the call.
        let _ = peer.notify_progress(progress.with_message(line)).await;
    }
}
