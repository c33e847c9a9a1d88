//! `floodmark view` as a process: an address on stdout, answers over a socket, an end by Ctrl-C.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

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
        Self::open(Served::start(folder, &[&["view", "--no-open"], words].concat()))
    }

    fn open(server: Served) -> Self {
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

    /// Ctrl-C. The exit status, and stderr.
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
    // A page that is still open does not keep the server from ending.
    let _open = viewer.connect(&format!("/{}/page.js", viewer.token));
    assert_eq!(viewer.interrupt(), (Some(0), "showing 2 traces; end with Ctrl-C\n".to_owned()));
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = Folder::new().with_bytes("late.flood", b"");
    let path = folder.path().join("late.flood");
    let whole = floodmark_testing::script::file(SCRIPT);
    let words = ["view", "--no-open", "--follow", "late.flood"];
    let server = Served::start_waiting(&folder, &words, |stderr| {
        assert_eq!(stderr, "waiting for `late.flood`");
        std::fs::write(path, whole).unwrap();
    });
    let viewer = Viewer::open(server);
    let traces = viewer.get(&format!("/{}/api/traces", viewer.token));
    assert!(traces.contains("\"follows\":true"), "{traces}");
    let (status, stderr) = viewer.interrupt();
    assert_eq!(status, Some(0));
    assert_eq!(stderr, "showing 1 trace; end with Ctrl-C\n");
}

/// 127.0.0.2 is this machine, too; a server that listens everywhere would answer there.
#[test]
fn the_server_listens_on_loopback_only() {
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
    let stderr = String::from_utf8(output.stderr).unwrap().replace(&port.to_string(), "PORT");
    insta::assert_snapshot!(stderr, @r"
    error: Failed to listen on `127.0.0.1:PORT`
      Caused by: another program uses this port

    hint: choose another port with `--port`, or leave it out
    ");
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(600);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every user can list the arguments of every process.
#[test]
fn the_browser_is_given_a_private_file_and_no_token() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let script = "#!/bin/sh\n\
        stat -c '%a' \"${1#file://}\" > mode\n\
        cp \"${1#file://}\" seen.html\n\
        printf '%s' \"$*\" > arguments.part\nmv arguments.part arguments\n";
    let browser = folder.path().join("browser");
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.args(["view", "a.flood"]).current_dir(folder.path()).env("BROWSER", &browser);
    let viewer = Viewer::open(Served::start_command(command));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    wait_until("the browser was not started", || folder.path().join("arguments").exists());
    let (arguments, page) = (read("arguments"), read("seen.html"));
    let own = std::fs::read(format!("/proc/{}/cmdline", viewer.server.pid())).unwrap();
    assert!(arguments.starts_with("file:///"), "{arguments}");
    assert!(!arguments.contains(&viewer.token), "{arguments}");
    assert!(!String::from_utf8_lossy(&own).contains(&viewer.token));
    assert_eq!(read("mode"), "600\n");
    assert!(page.contains(&format!("content=\"0; url={}\"", viewer.server.address)), "{page}");
    let file = arguments.trim_start_matches("file://").to_owned();
    assert!(std::path::Path::new(&file).exists());
    assert_eq!(viewer.interrupt().0, Some(0));
    assert!(!std::path::Path::new(&file).exists(), "the file is removed at the end");
}

/// With 256 descriptors: without a limit of its own, a server has none left for its owner.
#[test]
fn half_open_connections_do_not_lock_the_owner_out() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_floodmark")]);
    command.args(["view", "--no-open", "a.flood"]).current_dir(folder.path());
    let viewer = Viewer::open(Served::start_command(command));
    let half_open: Vec<TcpStream> = (0..500)
        .map(|number| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, viewer.server.port)).unwrap();
            if number % 2 == 0 {
                // It may have been closed already.
                let _ = write!(stream, "GET /{} HTTP/1.1\r\nHost: ", viewer.token);
            }
            stream
        })
        .collect();
    let page = viewer.get(&format!("/{}/", viewer.token));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", viewer.server.pid())).unwrap();
    assert!(descriptors.count() < 130, "96 connections, and some files");
    drop(half_open);
    assert_eq!(viewer.interrupt().0, Some(0));
}
