//! `floodmark metrics`: figures as text, and over a socket until Ctrl-C.

use std::net::{Ipv4Addr, TcpListener};

use insta::assert_snapshot;

use crate::program::Folder;
use crate::served::Served;

const SCRIPT: &str = "initial w cuda:0 1MiB
    label w parameter fc.weight
    alloc x cpu 2MiB at train.py:3
    alloc h cuda:0 8MiB at model.py:12:forward in fc
    free h deferred
    optimizer begin
    optimizer end
    oom cuda:0 1GiB at model.py:13";

fn served(folder: &Folder, words: &[&str]) -> Served {
    let server = Served::start(folder, &[&["metrics"], words].concat());
    assert!(server.address.ends_with("/metrics"), "{}", server.address);
    server
}

#[test]
fn figures_are_text_that_prometheus_reads() {
    assert_snapshot!(Folder::new().with("a.flood", SCRIPT).stdout("metrics --once a.flood"));
}

#[test]
fn ranks_of_a_folder_have_labels() {
    let folder = Folder::new().with("r/rank-0000.flood", SCRIPT).with("r/rank-0007.flood", SCRIPT);
    let text = folder.stdout("metrics --once r");
    let of = |name: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    };
    assert_eq!(
        of("floodmark_steps_total"),
        [r#"floodmark_steps_total{rank="0"} 1"#, r#"floodmark_steps_total{rank="7"} 1"#]
    );
    assert_eq!(of(r#"floodmark_allocated_bytes{rank="7",device="cuda:0"}"#).len(), 1);
    assert_eq!(text.matches("# TYPE floodmark_steps_total counter").count(), 1);
}

#[test]
fn figures_are_served_to_this_machine_until_ctrl_c() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let server = served(&folder, &["a.flood", "--listen", "127.0.0.1:0"]);
    let found = server.get("/metrics", "localhost:9400");
    assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
    assert!(found.contains("content-type: text/plain; version=0.0.4"), "{found}");
    let body = found.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body, folder.stdout("metrics --once a.flood"));
    for path in ["/", "/metrics/x", "/a.flood", "/../a.flood"] {
        assert!(server.get(path, "localhost").starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(server.get("/metrics", "evil.example").starts_with("HTTP/1.1 403"));
    let stderr = "serving figures for Prometheus; end with Ctrl-C\n";
    assert_eq!(server.end("-INT"), (Some(0), stderr.to_owned()));
}

#[test]
fn another_address_must_be_typed_and_is_warned_of() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let server = served(&folder, &["a.flood", "--listen", "0.0.0.0:0"]);
    assert!(server.get("/metrics", "gpu-3.example").starts_with("HTTP/1.1 200 OK"));
    let (status, stderr) = server.end("-TERM");
    assert_eq!(status, Some(0));
    assert!(
        stderr.starts_with("warning: anyone who can reach 0.0.0.0:0 can read the figures"),
        "{stderr}"
    );
}

#[test]
fn a_port_in_use_and_a_missing_trace_are_errors() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let stderr = folder.run(&format!("metrics a.flood --listen {address}"));
    assert!(
        stderr.starts_with("exit 1\n") && stderr.contains("another program uses this port"),
        "{stderr}"
    );
    assert!(folder.run("metrics b.flood").contains("there is no such file"));
}
