//! The server without a socket: a request in, a response out.

use std::path::PathBuf;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use floodmark_testing::program::Program;
use floodmark_testing::script;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use super::guard::POLICY;
use super::{Server, ShownTraces, router, save};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const STEPS: &str = "
    segment S cuda:0 20MiB
    alloc w cuda:0 4MiB on S+0MiB at train.py:1
    label w parameter layers.0.weight (4,4) float32
    alloc a cuda:0 2MiB on S+4MiB at train.py:10 in layers.0
    backward alloc g cuda:0 1MiB on S+6MiB at train.py:10 in layers.0
    free a
    step
    alloc b cuda:0 8MiB on S+7MiB at train.py:10 in layers.0
    free b
    step";

const FAILED: &str = "
    segment S cuda:0 20MiB
    alloc w cuda:0 16MiB on S+0MiB at train.py:1
    oom cuda:0 64MiB at train.py:2";

/// A server, and the folder of its recordings.
struct Viewer {
    server: std::sync::Arc<Server>,
    _folder: TempDir,
}

impl Viewer {
    fn open(scripts: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let paths: Vec<PathBuf> =
            (0..scripts.len()).map(|at| folder.path().join(format!("{at}.flood"))).collect();
        for (path, script) in paths.iter().zip(scripts) {
            std::fs::write(path, script::file(script)).unwrap();
        }
        let shown = ShownTraces::open(&paths, false).unwrap();
        Self { server: Server::new(shown, TOKEN.to_owned()), _folder: folder }
    }

    fn send(&self, request: Request<Body>) -> (Response<()>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let response = router(self.server.clone()).oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            (Response::from_parts(parts, ()), to_bytes(body, usize::MAX).await.unwrap().to_vec())
        })
    }

    fn get(&self, path: &str) -> (Response<()>, Vec<u8>) {
        self.send(get(path).body(Body::empty()).unwrap())
    }

    /// The answer to a request that must succeed.
    fn answer(&self, request: &str) -> Value {
        let (response, body) = self.get(&format!("/{TOKEN}/api/{request}"));
        assert_eq!(response.status(), StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// The status and the error of a request without an answer.
    fn refusal(&self, request: &str) -> (u16, String) {
        let (response, body) = self.get(&format!("/{TOKEN}/api/{request}"));
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert!(problem.get("hint").is_some());
        (response.status().as_u16(), problem["error"].as_str().unwrap().to_owned())
    }
}

fn get(path: &str) -> axum::http::request::Builder {
    Request::get(path).header(header::HOST, "127.0.0.1:1234")
}

#[test]
fn every_route_has_an_answer() {
    let viewer = Viewer::open(&[STEPS, STEPS]);
    let traces = viewer.answer("traces");
    assert_eq!(traces["moments"], Value::Null);
    assert_eq!(traces["traces"][1]["name"], "1.flood");
    assert_eq!(traces["traces"][1]["default_device"], "cuda:0");
    assert_eq!(viewer.answer("report?by=category&at=peak")["allocated"], 13 << 20);
    let timeline = viewer.answer("timeline?by=line");
    assert_eq!(timeline["peak"]["allocated"], 13 << 20);
    let tile = viewer.answer("timeline/tile?by=line&level=0&tile=0");
    assert_eq!(tile["allocated"].as_array().unwrap().len(), 512);
    assert_eq!(viewer.answer("bands")["steps"].as_array().unwrap().len(), 2);
    let tile = viewer.answer("allocations/tile?level=0&tile=0");
    assert_eq!(tile["shapes"].as_array().unwrap().len(), 4);
    let place = "seconds=0.009&bytes=1000";
    assert_eq!(viewer.answer(&format!("hit?by=category&{place}"))["group"], 0);
    assert_eq!(viewer.answer(&format!("hit?by=allocation&{place}"))["allocation"], 0);
    assert_eq!(viewer.answer("icicle?by=module&at=end")["total"], 5 << 20);
    assert_eq!(viewer.answer("segments?at=peak")["segments"][0]["bytes"], 20 << 20);
    let owners = viewer.answer("segments?at=peak")["owners"].clone();
    assert!(owners[0]["location"].as_str().is_some_and(|location| !location.is_empty()));
    let conf = "expandable_segments:True,roundup_power2_divisions:16";
    let simulated = viewer.answer(&format!("segments/simulated?at=peak&conf={conf}"));
    assert_eq!(simulated["alloc_conf"], conf);
    assert_eq!(simulated["segments"]["totals"]["allocated"], 13 << 20);
    assert!(viewer.answer("fragmentation")["points"][0]["reserved"].is_u64());
    let lives = viewer.answer("lifetimes?from=0&to=0.004");
    assert_eq!(lives["rows"][0]["tensors"].as_array().unwrap().len(), 2);
    let range = viewer.answer("range?from=0&to=99&by=category");
    assert_eq!(range["change"]["net"], 5 << 20);
    assert_eq!(viewer.answer("steps?device=cuda:0")["steps"][1]["peak"], 13 << 20);
    assert_eq!(viewer.answer("allocation?id=1")["partner"]["ids"], serde_json::json!([2]));
    assert_eq!(viewer.answer("diff?a=0&b=1")["allocated"]["change"], 0);
    let other = viewer.answer("diff?a=0&b=1&device_b=cuda:0&at_b=end");
    assert_eq!(other["allocated"]["change"], -(8 << 20));
    let curves = viewer.answer("diff/curves?a=0&b=1");
    assert_eq!((&curves["axis"], &curves["length"]), (&"steps".into(), &2.0.into()));
    let tree = viewer.answer("diff/tree?a=0&b=1&at_b=end&frames=all");
    assert_eq!(
        (&tree["root"]["kind"], &tree["root"]["bytes"]),
        (&"shrunk".into(), &(13 << 20).into())
    );
    let sandwich = viewer.answer("sandwich?at=peak&function=main&file=train.py");
    assert_eq!(sandwich["function"]["bytes"], 13 << 20);
    let steps = viewer.answer("timeline?by=line&axis=steps");
    assert_eq!(steps["axis"]["length"], 2.0);
    let tile = viewer.answer("timeline/tile?by=line&axis=steps&level=0&tile=0");
    assert_eq!((&tile["from"], &tile["to"]), (&0.0.into(), &2.0.into()));
    assert_eq!(viewer.answer("ranks")["median"], 13 << 20);
    assert_eq!(viewer.answer("ranks/lines")["total"], 0);
    assert!(viewer.answer("advice")["advice"].is_array());
    assert!(viewer.answer("sweep?device=cuda:0")["runs"].is_array());
}

#[test]
fn a_failed_allocation_is_explained_as_in_the_terminal() {
    let viewer = Viewer::open(&[STEPS, FAILED]);
    let traces = viewer.answer("traces");
    assert_eq!(traces["traces"][0]["failed_device"], Value::Null);
    assert_eq!(traces["traces"][1]["failed_device"], "cuda:0");
    let found = viewer.answer("oom?trace=1&device=cuda:0");
    assert_eq!(found["reason"], "capacity");
    assert!(found["why"].as_str().unwrap().starts_with("capacity. "), "{found}");
    assert_eq!(found["at"]["request"]["bytes"], 64 << 20);
    assert_eq!(found["lines"][0]["file"], "train.py");
    let (answers, _) = opened(&save(&viewer.server.shown, None, |_, _| {}).unwrap());
    assert_eq!(answers["api/oom?trace=1&device=cuda:0"], found);
    let (status, error) = viewer.refusal("oom?trace=0");
    assert_eq!((status, error.as_str()), (422, "no allocation failed in this trace"));
}

#[test]
fn what_has_no_answer_says_why() {
    let viewer = Viewer::open(&[STEPS]);
    let cases = [
        ("nothing", 404, "there is no `api/nothing`"),
        ("steps?trace=7", 404, "there is no trace 7; 1 are shown, counted from 0"),
        ("report?at=noon", 400, "`at` is `noon`; it must be `peak`, `oom`, `end` or seconds"),
        ("hit?seconds=-1&bytes=0", 400, "`seconds` is `-1`; it must be a number of seconds"),
        ("lifetimes?to=NaN", 400, "`to` is `NaN`; it must be a number of seconds"),
        ("report?at=oom", 422, "no allocation failed in this trace"),
        ("report?device=cuda:3", 422, "nothing was recorded on cuda:3; the trace has cuda:0"),
        ("allocation?id=99", 422, "there is no allocation 99: the trace has 4"),
        ("follow", 404, "these traces are not followed"),
    ];
    for (request, status, error) in cases {
        assert_eq!(viewer.refusal(request), (status, error.to_owned()), "{request}");
    }
}

#[test]
fn without_the_token_nothing_is_there() {
    let viewer = Viewer::open(&[STEPS]);
    let other = "f".repeat(32);
    for path in
        ["/", "/api/traces", "/page.js", &format!("/{other}/"), &format!("/{other}/api/traces")]
    {
        let (response, body) = viewer.get(path);
        assert_eq!((response.status(), body.len()), (StatusCode::NOT_FOUND, 0), "{path}");
    }
    assert_eq!(viewer.get(&format!("/{TOKEN}/")).0.status(), StatusCode::OK);
    let (moved, _) = viewer.get(&format!("/{TOKEN}"));
    assert_eq!(moved.headers()[header::LOCATION], format!("/{TOKEN}/"));
}

#[test]
fn a_name_that_is_not_of_this_machine_is_refused() {
    let viewer = Viewer::open(&[STEPS]);
    for host in ["evil.example", "evil.example:1234", "127.0.0.1.evil.example"] {
        let request = Request::get(format!("/{TOKEN}/api/traces")).header(header::HOST, host);
        let (response, _) = viewer.send(request.body(Body::empty()).unwrap());
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{host}");
    }
    let nameless = Request::get(format!("/{TOKEN}/api/traces")).body(Body::empty()).unwrap();
    assert_eq!(viewer.send(nameless).0.status(), StatusCode::FORBIDDEN);
}

#[test]
fn every_response_forbids_what_is_not_ours() {
    let viewer = Viewer::open(&[STEPS]);
    let page = [format!("/{TOKEN}/"), format!("/{TOKEN}/page.js"), format!("/{TOKEN}/page.css")];
    let more = [format!("/{TOKEN}/api/traces"), format!("/{TOKEN}/api/x"), "/wrong/".to_owned()];
    for path in page.iter().chain(&more) {
        let (response, _) = viewer.get(path);
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], POLICY, "{path}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[header::CACHE_CONTROL], "private, no-cache");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
    let sources =
        POLICY.split([' ', ';']).filter(|word| word.contains("unsafe") || word.contains('*'));
    assert_eq!(sources.count(), 0);
}

#[test]
fn no_path_leads_to_a_file() {
    let viewer = Viewer::open(&[STEPS]);
    for path in [
        "0.flood",
        "../0.flood",
        "%2e%2e/0.flood",
        "api/..%2f..%2fetc/passwd",
        "/etc/passwd",
        "page.js/../../x",
    ] {
        let (response, body) = viewer.get(&format!("/{TOKEN}/{path}"));
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(!String::from_utf8_lossy(&body).contains("root:"), "{path}");
    }
}

#[test]
fn nothing_can_be_changed() {
    let viewer = Viewer::open(&[STEPS]);
    for method in ["POST", "PUT", "DELETE"] {
        let request = Request::builder().method(method).uri(format!("/{TOKEN}/api/traces"));
        let request = request.header(header::HOST, "localhost").body(Body::empty()).unwrap();
        assert_eq!(viewer.send(request).0.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}

/// JSON with its content type and `nosniff`: browsers do not treat it as HTML, and the name is unchanged.
#[test]
fn a_hostile_name_stays_a_text() {
    let name = "</script><img/src=x/onerror=alert(1)>.py";
    let viewer = Viewer::open(&[&format!("alloc a cuda:0 1MiB at {name}:1")]);
    let (response, _) = viewer.get(&format!("/{TOKEN}/api/report"));
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    assert_eq!(viewer.answer("report")["rows"][0]["file"], name);
    let (status, error) = viewer.refusal("report?by=%3Cscript%3E");
    assert_eq!((status, error.contains("<script>")), (400, true));
}

#[test]
fn answers_are_packed_for_who_can_unpack_them() {
    let viewer = Viewer::open(&[STEPS]);
    let unpacked = viewer.get(&format!("/{TOKEN}/api/report")).1;
    let request = get(&format!("/{TOKEN}/api/report")).header(header::ACCEPT_ENCODING, "br, gzip");
    let (response, packed) = viewer.send(request.body(Body::empty()).unwrap());
    assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
    assert_eq!(super::respond::unpack(&packed).unwrap(), unpacked);
}

#[test]
fn what_did_not_change_is_not_sent_again() {
    let viewer = Viewer::open(&[STEPS]);
    let path = format!("/{TOKEN}/api/report");
    let tag = viewer.get(&path).0.headers()[header::ETAG].clone();
    let request = get(&path).header(header::IF_NONE_MATCH, tag);
    let (response, body) = viewer.send(request.body(Body::empty()).unwrap());
    assert_eq!((response.status(), body.len()), (StatusCode::NOT_MODIFIED, 0));
}

/// The answers in a saved page, and the page without them.
fn opened(page: &str) -> (serde_json::Map<String, Value>, String) {
    use base64::Engine;
    let (before, rest) = page.split_once("data-encoding=\"gzip+base64\">").unwrap();
    let (text, after) = rest.split_once("</script>").unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let answers = serde_json::from_slice(&super::respond::unpack(&packed).unwrap()).unwrap();
    (answers, format!("{before}{after}"))
}

#[test]
fn source_is_read_where_a_frame_of_the_trace_names_it_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("net.py");
    std::fs::write(&path, "import torch\nx = torch.ones(3)\n").unwrap();
    std::fs::write(folder.path().join("other.py"), "secret = 1\n").unwrap();
    let file = path.to_str().unwrap();
    let script = format!(
        "alloc a cuda:0 2MiB at {file}:2:main\nalloc b cuda:0 1MiB at {file}.txt:1:main\n\
         alloc c cuda:0 1MiB at /nowhere/gone.py:7:main"
    );
    let viewer = Viewer::open(&[&script]);
    let files = viewer.answer("source/files?at=peak")["files"].clone();
    assert_eq!((&files[0]["file"], &files[0]["bytes"]), (&file.into(), &(2 << 20).into()));
    let source = viewer.answer(&format!("source?at=peak&file={file}"));
    assert_eq!(source["text"], "import torch\nx = torch.ones(3)\n");
    assert_eq!(source["annotation"]["lines"][0]["line"], 2);
    let refused = viewer.answer(&format!("source?at=peak&file={file}&disk=false"));
    assert_eq!(refused["text"], Value::Null);
    let missing = viewer.answer("source?at=peak&file=/nowhere/gone.py")["missing"].clone();
    assert!(missing.as_str().unwrap().starts_with("the file is not on this machine"), "{missing}");
    let text = viewer.answer(&format!("source?at=peak&file={file}.txt"))["missing"].clone();
    assert_eq!(text, "this is no Python file");
    let other = folder.path().join("other.py");
    let (status, error) = viewer.refusal(&format!("source?at=peak&file={}", other.display()));
    assert_eq!(status, 422, "{error}");
}

#[test]
fn a_saved_page_has_the_answers_of_the_server() {
    let viewer = Viewer::open(&[STEPS, STEPS]);
    let (answers, _) = opened(&save(&viewer.server.shown, None, |_, _| {}).unwrap());
    let moments = &answers["api/traces"]["moments"]["1"]["cuda:0"];
    let peak = viewer.answer("timeline?by=line")["peak"]["seconds"].as_f64().unwrap();
    assert!(moments.as_array().unwrap().contains(&peak.into()), "{moments}");
    for request in [
        "timeline?trace=0&device=cuda:0&by=category&axis=time",
        "timeline/tile?trace=0&device=cuda:0&by=line&axis=events&level=0&tile=0",
        "timeline/tile?by=line&axis=time&trace=0&device=cuda:0&level=1&tile=1",
        "report?trace=1&device=cuda:0&by=line&at=peak",
        &format!("report?trace=0&device=cuda:0&by=module&at={peak}"),
        "steps?trace=0&device=cuda:0",
        "source/files?trace=0&device=cuda:0&at=peak",
        "diff?a=1&b=0&device_a=cuda:0&device_b=cuda:0&at_a=peak&at_b=peak&by=line",
        "diff/curves?a=1&b=0&device_a=cuda:0&device_b=cuda:0&at_a=peak&at_b=peak",
        "diff/tree?a=1&b=0&device_a=cuda:0&device_b=cuda:0&at_a=peak&at_b=peak&by=stack",
        "ranks",
        "ranks/lines",
        "bands?trace=0&device=cuda:0",
        "icicle?trace=0&device=cuda:0&by=stack&at=end",
        "segments?trace=0&device=cuda:0&at=peak",
        "lifetimes?trace=0&device=cuda:0&from=0&to=0.01",
        "allocations/tile?trace=0&device=cuda:0&axis=steps&level=0&tile=0",
        "advice?trace=0&device=cuda:0",
        "sweep?trace=1&device=cuda:0",
        "allocation?trace=1&id=3",
    ] {
        assert_eq!(answers[&format!("api/{request}")], viewer.answer(request), "{request}");
    }
    let refused = &answers["api/report?trace=0&device=cuda:0&by=line&at=oom"];
    assert_eq!(refused["error"], "no allocation failed in this trace");
}

#[test]
fn no_letter_of_a_hostile_name_stands_in_a_saved_page() {
    let name = "</script><script>alert(1)</script><!--.py";
    let viewer = Viewer::open(&[&format!("alloc a cuda:0 1MiB at {name}:1")]);
    let page = save(&viewer.server.shown, None, |_, _| {}).unwrap();
    let (answers, rest) = opened(&page);
    assert!(!page.contains("alert(1)"));
    assert_eq!(
        rest,
        opened(&save(&Viewer::open(&[STEPS]).server.shown, None, |_, _| {}).unwrap()).1
    );
    let report = &answers["api/report?trace=0&device=cuda:0&by=line&at=peak"];
    assert_eq!(report["rows"][0]["file"], name);
}

/// The next event of a stream: its name and its data.
async fn event(stream: &mut axum::body::BodyDataStream) -> (String, Value) {
    use futures_util::StreamExt;
    let next = tokio::time::timeout(std::time::Duration::from_secs(600), stream.next());
    let bytes = next.await.expect("an event comes").unwrap().unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap().trim_start().to_owned()
    };
    (field("event:"), serde_json::from_str(&field("data:")).unwrap())
}

#[test]
fn a_page_hears_of_a_trace_that_grows() {
    let mut program = Program::start();
    program.flush(4);
    let server = Server::new(ShownTraces::open(&[program.path()], true).unwrap(), TOKEN.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = get(&format!("/{TOKEN}/api/follow")).body(Body::empty()).unwrap();
        let response = router(server.clone()).oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let mut stream = response.into_body().into_data_stream();
        let (name, first) = event(&mut stream).await;
        assert_eq!((name.as_str(), &first["revision"]), ("grown", &1.into()));
        program.flush(6);
        let (name, second) = event(&mut stream).await;
        assert_eq!((name.as_str(), &second["revision"]), ("grown", &2.into()));
        assert!(second["events"].as_u64() > first["events"].as_u64());
        assert_eq!(second["is_finished"], false);
        let _folder = program.end();
        assert_eq!(event(&mut stream).await.1["is_finished"], true);
        assert_eq!(
            event(&mut stream).await,
            ("ended".to_owned(), serde_json::json!({"traces": 1}))
        );
    });
}
