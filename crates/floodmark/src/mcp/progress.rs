//! The progress of a call: what its program says, for an assistant that asks for it.

use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};

/// Where the progress of a call goes; nowhere, where the assistant gave no token.
pub(super) struct Progress {
    to: Option<(ProgressToken, Peer<RoleServer>)>,
    said: AtomicU64,
}

impl Progress {
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let to = token.map(|token| (token, context.peer.clone()));
        Self { to, said: AtomicU64::new(0) }
    }

    /// A line that the program said.
    pub(super) async fn say(&self, line: &str) {
        let line = line.trim();
        let Some((token, peer)) = self.to.as_ref().filter(|_| !line.is_empty()) else { return };
        let said = self.said.fetch_add(1, Ordering::Relaxed) + 1;
        // The protocol has a fraction here.
        let said = f64::from(u32::try_from(said).unwrap_or(u32::MAX));
        let progress = ProgressNotificationParam::new(token.clone(), said);
        // An assistant that is gone has cancelled the call.
        let _ = peer.notify_progress(progress.with_message(line)).await;
    }
}
