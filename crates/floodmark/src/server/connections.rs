//! Accepts connections, with limits on their number and on the time to send a request.
//!
//! Every program of this machine can connect, also one that does not have the token. A connection that has not shown
//! the token is closed to make room for a new one, the oldest first, so idle connections do not keep the owner out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Limits on connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The most connections at a time.
    pub(crate) most: usize,
    /// The longest time from the start of a connection, or from its last answer, to the end of the next request's
    /// headers.
    pub(crate) header_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // A browser opens six for a page.
        Self { most: 96, header_timeout: Duration::from_secs(20) }
    }
}

/// The pause when the system has no descriptor left for a connection.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The state of a connection; the guard finds it in the extensions of each request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection(Arc<AtomicBool>);

impl Connection {
    /// Notes that a request on this connection had the token.
    pub(crate) fn has_shown_token(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_owner(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves connections; returns only on an error.
pub(crate) async fn serve_connections(listener: TcpListener, router: Router, limits: Limits) -> ! {
    let mut open: Vec<(Connection, AbortHandle)> = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The client has closed it already.
            Err(error) if is_about_one_connection(&error) => continue,
            // Probably no descriptor is left: wait for one.
            Err(_) => {
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        open.retain(|(_, task)| !task.is_finished());
        if open.len() >= limits.most {
            let Some(oldest) = open.iter().position(|(connection, _)| !connection.is_owner())
            else {
                // All are the owner's: refuse the new one.
                continue;
            };
            open.remove(oldest).1.abort();
        }
        let connection = Connection::default();
        let router = router.clone().layer(Extension(connection.clone()));
        let task = tokio::spawn(serve_one(stream, router, limits.header_timeout));
        open.push((connection, task.abort_handle()));
    }
}

async fn serve_one(stream: TcpStream, router: Router, header_timeout: Duration) {
    let service = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_timeout);
    // Ignore an error of one connection.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

    use axum::http::Request;
    use axum::routing::get;

    use super::*;

    const READ_TIMEOUT: Duration = Duration::from_secs(600);

    /// Serves `/` for the owner and `/x` for all, on a thread that ends with the test's process.
    fn start(limits: Limits) -> SocketAddr {
        let owner = |request: Request<axum::body::Body>| async move {
            request.extensions().get::<Connection>().unwrap().has_shown_token();
            "hello"
        };
        let router = Router::new().route("/", get(owner)).route("/x", get(|| async { "x" }));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                serve_connections(listener, router, limits).await
            })
        });
        receiver.recv().unwrap()
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream
    }

    fn request(stream: &mut TcpStream, path: &str) -> String {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let (mut answer, mut part) = (String::new(), [0; 1024]);
        // The body has as many bytes as the header says.
        while !is_whole(&answer) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "closed after {answer:?}");
            answer += std::str::from_utf8(&part[..count]).unwrap();
        }
        answer
    }

    fn is_whole(answer: &str) -> bool {
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        length.unwrap().parse() == Ok(body.len())
    }

    /// Waits until the other side closes.
    fn is_closed(stream: &mut TcpStream) -> bool {
        match stream.read(&mut [0; 16]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    #[test]
    fn a_connection_that_does_not_ask_is_closed() {
        let address = start(Limits { most: 8, header_timeout: Duration::from_millis(50) });
        let (mut silent, mut slow) = (connect(address), connect(address));
        slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
        assert!(is_closed(&mut silent) && is_closed(&mut slow));
    }

    #[test]
    fn the_oldest_without_a_token_makes_room() {
        let address = start(Limits { most: 3, header_timeout: READ_TIMEOUT });
        let mut owner = connect(address);
        assert!(request(&mut owner, "/").ends_with("hello"));
        let mut stranger = connect(address);
        assert!(request(&mut stranger, "/x").ends_with('x'));
        let (mut silent, mut newest) = (connect(address), connect(address));
        assert!(is_closed(&mut stranger), "the oldest stranger");
        assert!(request(&mut newest, "/").ends_with("hello"));
        assert!(request(&mut owner, "/").ends_with("hello"), "the owner's is kept");
        let mut another = connect(address);
        assert!(is_closed(&mut silent), "the next stranger");
        assert!(request(&mut another, "/").ends_with("hello"));
        assert!(is_closed(&mut connect(address)), "all three are the owner's");
    }
}
