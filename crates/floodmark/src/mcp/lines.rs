//! Reads lines from stdin, and answers a line that is not JSON or too long with an error.
//!
//! The protocol library ignores such lines. So a relay reads stdin first, and forwards only lines of JSON to the
//! library.

use std::io;

use rmcp::model::ErrorData;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde::de::IgnoredAny;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The longest line that the library reads.
const MOST_LINE_BYTES: usize = 16 << 20;
/// How many bytes the relay may read ahead of the library.
const AHEAD_BYTES: usize = 1 << 16;

/// A transport that reads messages from one stream and writes answers to another.
pub(super) struct Lines<W: AsyncWrite> {
    messages: AsyncRwTransport<RoleServer, DuplexStream, W>,
    refused: UnboundedReceiver<ErrorData>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Lines<W> {
    /// Reads lines until the stream ends. Must be called inside a runtime.
    pub(super) fn new(read: impl AsyncRead + Send + Unpin + 'static, write: W) -> Self {
        let (to, from) = duplex(AHEAD_BYTES);
        let (refusing, refused) = unbounded_channel();
        tokio::spawn(relay(BufReader::new(read), to, refusing));
        Self { messages: AsyncRwTransport::new_server(from, write), refused }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.messages.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let error = tokio::select! {
                biased;
                Some(error) = self.refused.recv() => error,
                message = self.messages.receive() => return message,
            };
            self.messages.send(TxJsonRpcMessage::<RoleServer>::error(error, None)).await.ok()?;
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.messages.close().await
    }
}

/// Forwards lines that are JSON.
async fn relay(
    mut from: BufReader<impl AsyncRead + Unpin>,
    mut to: DuplexStream,
    refused: UnboundedSender<ErrorData>,
) {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    while let Ok(available) = from.fill_buf().await
        && !available.is_empty()
    {
        let newline = available.iter().position(|&byte| byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        is_too_long |= line.len() + taken > MOST_LINE_BYTES;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        from.consume(taken);
        if newline.is_none() {
            continue;
        }
        let is_read = match refusal(&line, std::mem::take(&mut is_too_long)) {
            Some(error) => refused.send(error).is_ok(),
            None => to.write_all(&line).await.is_ok(),
        };
        if !is_read {
            return;
        }
        line.clear();
    }
}

/// The error for a line that is not forwarded; `None` for one that is.
fn refusal(line: &[u8], is_too_long: bool) -> Option<ErrorData> {
    if is_too_long {
        let message = format!("a message may have {} MiB at most", MOST_LINE_BYTES >> 20);
        return Some(ErrorData::invalid_request(message, None));
    }
    if line.trim_ascii().is_empty() {
        return None;
    }
    let error = serde_json::from_slice::<IgnoredAny>(line).err()?;
    Some(ErrorData::parse_error(format!("the message is not JSON: {error}"), None))
}
