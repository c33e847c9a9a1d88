//! A command that serves: started, asked over a socket, ended by a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::Folder;

/// How long an answer may take. It only ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(600);

fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The first line, and not a byte more.
fn first_line(from: &mut impl Read) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while from.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

/// A server that runs. It ends with the test.
pub(crate) struct Served {
    child: Child,
    /// The address that it printed.
    pub(crate) address: String,
    pub(crate) port: u16,
}

impl Served {
    /// Starts a command, and waits until it says where it listens.
    pub(crate) fn start(folder: &Folder, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        command.args(words).current_dir(folder.path());
        Self::start_command(command)
    }

    /// The same of a command that was made elsewhere.
    pub(crate) fn start_command(command: Command) -> Self {
        Self::listening(spawn(command))
    }

    /// Starts a command that waits for something; `provide` is called with the line in which it says so.
    pub(crate) fn start_waiting(
        folder: &Folder,
        words: &[&str],
        provide: impl FnOnce(&str),
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        command.args(words).current_dir(folder.path());
        let mut child = spawn(command);
        provide(&first_line(child.stderr.as_mut().unwrap()));
        Self::listening(child)
    }

    fn listening(mut child: Child) -> Self {
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim_end().to_owned();
        let place = address.strip_prefix("http://").expect("an address");
        let (host, _) = place.split_once('/').expect("a path after the host");
        let port = host.rsplit_once(':').expect("a port").1.parse().unwrap();
        Self { child, address, port }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks, and leaves the answer to be read.
    pub(crate) fn connect(&self, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    /// The whole answer, headers included.
    pub(crate) fn get(&self, path: &str, host: &str) -> String {
        let mut response = String::new();
        self.connect(path, host).read_to_string(&mut response).unwrap();
        response
    }

    /// The exit status after a signal, and stderr.
    pub(crate) fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (status.code(), stderr)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
