//! `floodmark view` as a process: an address on stdout, answers over a socket, an end by Ctrl-C.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::program::Folder;
use crate::served::Served;

const SCRIPT: &str = "
    alloc w cuda:0 4MiB at train.py:1
    alloc a cuda:0 2MiB at train.py:10 in layers.0
    free a";

/// A viewer that runs.
struct Viewer {
    server: Served,
    token: String,
}

impl Viewer {
    fn start(folder: &Folder, words: &[&str]) -> Self {
        let server = Served::start(folder, &[&["view", "--no-open"], words].concat());
        let place = server.address.strip_prefix("http://127.0.0.1:").expect("loopback");
        let (_, token) = place.split_once('/').unwrap();
        let token = token.trim_end_matches('/').to_owned();
        Self { server, token }
    }

    fn connect(&self, path: &str) -> TcpStream {
        self.server.connect(path, &format!("localhost:{}", self.server.port))
    }

    fn get(&self, path: &str) -> String {
        self.server.get(path, &format!("localhost:{}", self.server.port))
    }

    /// Ctrl-C. The exit status, and what was said on stderr.
    fn interrupt(self) -> (Option<i32>, String) {
        self.server.end("-INT")
    }
}

#[test]
fn a_page_is_served_until_ctrl_c() {
    let folder = Folder::new().with("a.flood", SCRIPT).with("ranks/rank-0001.flood", SCRIPT);
    let viewer = Viewer::start(&folder, &["a.flood", "ranks"]);
    let page = viewer.get(&format!("/{}/", viewer.token));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    let traces = viewer.get(&format!("/{}/api/traces", viewer.token));
    assert!(traces.contains("\"name\":\"rank-0001.flood\",\"rank\":1,"), "{traces}");
    assert!(viewer.get("/api/traces").starts_with("HTTP/1.1 404 "));
    // A page that is still open keeps nobody from ending.
    let _open = viewer.connect(&format!("/{}/page.js", viewer.token));
    assert_eq!(viewer.interrupt(), (Some(0), "showing 2 traces; end with Ctrl-C\n".to_owned()));
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = Folder::new().with_bytes("late.flood", b"");
    let path = folder.path().join("late.flood");
    let whole = crate::script::file(SCRIPT);
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::write(path, whole).unwrap();
    });
    let viewer = Viewer::start(&folder, &["--follow", "late.flood"]);
    writer.join().unwrap();
    let traces = viewer.get(&format!("/{}/api/traces", viewer.token));
    assert!(traces.contains("\"follows\":true"), "{traces}");
    let (status, said) = viewer.interrupt();
    assert_eq!(status, Some(0));
    assert_eq!(said, "waiting for `late.flood`\nshowing 1 trace; end with Ctrl-C\n");
}

/// 127.0.0.2 is this machine, too; a server that listens everywhere would answer there.
#[test]
fn nobody_listens_beyond_loopback() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let viewer = Viewer::start(&folder, &["a.flood"]);
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], viewer.server.port));
    assert!(TcpStream::connect_timeout(&elsewhere, Duration::from_secs(5)).is_err());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, viewer.server.port)).is_ok());
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = folder.command(&format!("view --no-open --port {port} a.flood")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap().replace(&port.to_string(), "PORT");
    insta::assert_snapshot!(said, @r"
    error: Failed to listen on `127.0.0.1:PORT`
      Caused by: another program uses this port

    hint: choose another with `--port`, or leave it out
    ");
}
