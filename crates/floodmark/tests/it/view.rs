//! `floodmark view` as a process: an address on stdout, answers over a socket, an end by Ctrl-C.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::Folder;

const SCRIPT: &str = "
    alloc w cuda:0 4MiB at train.py:1
    alloc a cuda:0 2MiB at train.py:10 in layers.0
    free a";

/// A viewer that runs.
struct Viewer {
    child: Child,
    port: u16,
    token: String,
}

impl Viewer {
    fn start(folder: &Folder, words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_floodmark"))
            .args(["view", "--no-open"])
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let rest =
            address.trim_end().strip_prefix("http://127.0.0.1:").expect("an address of loopback");
        let (port, token) = rest.split_once('/').unwrap();
        let (port, token) = (port.parse().unwrap(), token.trim_end_matches('/').to_owned());
        Self { child, port, token }
    }

    fn connect(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let host = format!("Host: localhost:{}", self.port);
        write!(stream, "GET {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut response = String::new();
        self.connect(path).read_to_string(&mut response).unwrap();
        response
    }

    /// Ctrl-C. The exit status, and what was said on stderr.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], viewer.port));
    assert!(TcpStream::connect_timeout(&elsewhere, Duration::from_secs(5)).is_err());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, viewer.port)).is_ok());
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
