//! `floodmark mcp`, asked by the client of the protocol's own library.

use std::future::Future;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceRequestParams};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, serve_client};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::program::Folder;

const STEPS: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB on A at model.py:3:forward in layers.0.fc
    alloc b cuda:0 8MiB on A+8MiB at train.py:5
    free b
    alloc c cuda:0 4MiB on A+8MiB at train.py:6";
const FAILED: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB on A at model.py:3:forward
    oom cuda:0 16MiB at train.py:6";
const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
    23.65 GiB of which 1.20 GiB is free. Process 4242 has 22.44 GiB memory in use. Of the allocated memory 21.00 GiB is \
    allocated by PyTorch, and 1.01 GiB is reserved by PyTorch but unallocated.";

fn folder() -> Folder {
    Folder::new()
        .with("runs/x.flood", STEPS)
        .with("runs/failed.flood", FAILED)
        .with("runs/ranks/rank-0000.flood", STEPS)
        .with("runs/ranks/rank-0001.flood", FAILED)
        .with("secret.flood", STEPS)
        .with_bytes("runs/bad.flood", b"hello, world")
        .with_recording("runs/torch.pickle.gz", "allocator/default-oom.pickle.gz")
}

struct Assistant {
    client: RunningService<RoleClient, ()>,
    server: Child,
}

impl Assistant {
    async fn start(folder: &Folder, args: &str) -> Self {
        let mut server = Command::new(env!("CARGO_BIN_EXE_floodmark"))
            .args(args.split_whitespace())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pipes = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        Self { client: serve_client((), pipes).await.unwrap(), server }
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.try_call(tool, arguments).await.unwrap()
    }

    async fn try_call(&self, tool: &str, given: Value) -> Result<CallToolResult, ServiceError> {
        let Value::Object(given) = given else { panic!("not an object") };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(given);
        self.client.call_tool(call).await
    }

    /// The message of a call that fails.
    async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!((result.is_error, &result.structured_content), (Some(true), &None));
        text(&result).to_owned()
    }

    async fn read(&self, uri: &str) -> Result<Value, ServiceError> {
        let read = self.client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        Ok(serde_json::to_value(&read.contents).unwrap())
    }

    /// The server ends by itself when stdin is closed.
    async fn end(mut self) {
        self.client.cancel().await.unwrap();
        assert!(self.server.wait().await.unwrap().success());
    }
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn every_tool_answers_what_its_command_prints() {
    let folder = folder();
    let calls = [
        ("info", json!({"trace": "x.flood"}), "info {}/x.flood"),
        ("info", json!({"trace": "ranks"}), "info {}/ranks"),
        ("report", json!({"trace": "x.flood"}), "report {}/x.flood"),
        (
            "report",
            json!({"trace": "torch.pickle.gz", "by": "category", "at": "end", "device": "cuda:0", "top": 2}),
            "report {}/torch.pickle.gz --by category --at end --device cuda:0 --top 2",
        ),
        ("report", json!({"trace": "x.flood", "at": 0.002}), "report {}/x.flood --at 0.002"),
        ("oom", json!({"trace": "failed.flood", "top": 1}), "oom {}/failed.flood --top 1"),
        (
            "diff",
            json!({"a": "x.flood", "b": "torch.pickle.gz", "by": "phase"}),
            "diff {}/x.flood {}/torch.pickle.gz --by phase",
        ),
        ("leaks", json!({"trace": "torch.pickle.gz"}), "leaks {}/torch.pickle.gz"),
        (
            "simulate",
            json!({"trace": "torch.pickle.gz", "alloc_conf": ["expandable_segments:True"], "memory": "4GiB"}),
            "simulate {}/torch.pickle.gz --alloc-conf expandable_segments:True --memory 4GiB",
        ),
        ("advise", json!({"trace": "torch.pickle.gz"}), "advise {}/torch.pickle.gz"),
    ];
    let runs = folder.path().canonicalize().unwrap().join("runs");
    run(async {
        let assistant = Assistant::start(&folder, "mcp runs --read-only").await;
        for (tool, arguments, line) in calls {
            let line = line.replace("{}", runs.to_str().unwrap());
            let result = assistant.call(tool, arguments).await;
            let printed = folder.stdout(&format!("{line} --json"));
            let printed: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(result.structured_content, Some(printed), "{line}");
            assert_eq!(text(&result), folder.stdout(&line), "{line}");
            assert_eq!(result.is_error, Some(false));
        }
        // Which rank an answer is about is in its text.
        let result = assistant.call("report", json!({"trace": "ranks"})).await;
        let note = "of 2 ranks, rank 0 has the highest peak; choose another with `--rank`\n";
        assert_eq!(text(&result).strip_prefix(note).unwrap(), folder.stdout("report runs/ranks"));
        assistant.end().await;
    });
}

#[test]
fn a_message_of_torch_is_explained_without_a_trace() {
    run(async {
        let folder = folder().with_bytes("message.txt", MESSAGE.as_bytes());
        let assistant = Assistant::start(&folder, "mcp").await;
        let result = assistant.call("oom", json!({"message": MESSAGE})).await;
        assert_eq!(text(&result), folder.stdout("oom message.txt"));
        let of_file = assistant.call("oom", json!({"trace": "message.txt"})).await;
        assert_eq!(result.structured_content, of_file.structured_content);
        insta::assert_snapshot!(assistant.refusal("oom", json!({"message": "hello"})).await, @"
        error: Failed to explain `message`
          Caused by: no out-of-memory message of torch in 1 line

        hint: paste the whole message, from `CUDA out of memory` on
        ");
        insta::assert_snapshot!(assistant.refusal("oom", json!({})).await, @"
        error: Failed to answer `oom`
          Caused by: exactly one of `trace` and `message` is needed
        ");
        insta::assert_snapshot!(assistant.refusal("oom", json!({"message": "x", "trace": "y"})).await, @"
        error: Failed to answer `oom`
          Caused by: exactly one of `trace` and `message` is needed
        ");
        insta::assert_snapshot!(assistant.refusal("oom", json!({"message": 1})).await, @"
        error: Failed to answer `oom`
          Caused by: the argument `message` must be a string
        ");
        assistant.end().await;
    });
}

#[test]
fn a_tool_has_the_schemas_of_its_command() {
    let folder = folder();
    let schema: Value = serde_json::from_str(&folder.stdout("schema")).unwrap();
    run(async {
        let assistant = Assistant::start(&folder, "mcp runs").await;
        let tools = assistant.client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        let expected =
            "info report oom diff leaks ledger simulate advise estimate estimate_model fit plan";
        assert_eq!(names.join(" "), expected);
        for tool in &tools {
            let output = Value::Object((**tool.output_schema.as_ref().unwrap()).clone());
            assert_eq!(output["type"], "object", "{}", tool.name);
            for (name, definition) in output["$defs"].as_object().unwrap() {
                assert_eq!(definition, &schema["$defs"][name], "{name}");
            }
            let hints = tool.annotations.as_ref().unwrap();
            let runs_program = ["estimate", "estimate_model", "fit", "plan"].contains(&&*tool.name);
            assert_eq!(hints.read_only_hint, Some(!runs_program));
            let inputs = &tool.input_schema["properties"];
            assert_eq!(inputs.get("time_limit").is_some(), runs_program, "{}", tool.name);
            // It would run the program for real.
            assert!(inputs.get("run").is_none(), "{}", tool.name);
        }
        let schema = serde_json::to_string_pretty(&tools[1].input_schema).unwrap();
        insta::assert_snapshot!(schema, @r#"
        {
          "type": "object",
          "properties": {
            "trace": {
              "type": "string",
              "description": "A `.flood` file, a torch memory snapshot, or a folder with one per rank"
            },
            "device": {
              "type": "string",
              "description": "Device, such as `cuda:0` or `cpu` [default: the CUDA device with the highest peak, otherwise the CPU]"
            },
            "rank": {
              "type": "integer",
              "minimum": 0,
              "description": "Rank, for a folder of traces [default: the one with the highest peak]"
            },
            "by": {
              "type": "string",
              "description": "Group the rows by this",
              "enum": [
                "line",
                "stack",
                "module",
                "op",
                "op-call",
                "parameter",
                "phase",
                "category",
                "tensor",
                "step",
                "segment"
              ],
              "default": "line"
            },
            "at": {
              "type": "string",
              "description": "Time: `peak`, `oom`, `end`, the peak of a step (`step:3`) or of a phase of it (`step:3:backward`), or seconds since the recording began",
              "default": "peak"
            },
            "top": {
              "type": "integer",
              "minimum": 0,
              "description": "Number of rows; 0 shows all",
              "default": 25
            },
            "torch_frames": {
              "type": "boolean",
              "description": "Attribute allocations to torch's own frames, C++ included, instead of the calling line"
            }
          },
          "required": [
            "trace"
          ],
          "additionalProperties": false
        }
        "#);
        insta::assert_snapshot!(
            serde_json::to_string(&tools[8].input_schema["required"]).unwrap(), @r#"["program"]"#
        );
        assistant.end().await;
    });
}

#[test]
fn a_server_that_only_reads_has_no_tool_that_runs_a_program() {
    let folder = folder();
    run(async {
        let reader = Assistant::start(&folder, "mcp runs --read-only").await;
        let tools = reader.client.list_all_tools().await.unwrap();
        let hints = tools.iter().map(|tool| tool.annotations.as_ref().unwrap().read_only_hint);
        assert_eq!(hints.collect::<Vec<_>>(), [Some(true); 8]);
        let call = reader.try_call("estimate", json!({"program": "x.py"})).await;
        assert!(call.unwrap_err().to_string().contains("there is no tool `estimate`"));
        reader.end().await;
    });
}

#[test]
fn bad_input_is_an_error_of_the_tool() {
    run(async {
        let folder = folder();
        let assistant = Assistant::start(&folder, "mcp runs").await;
        let root = folder.path().canonicalize().unwrap();
        let refusal = async |tool: &str, arguments: Value| {
            let text = assistant.refusal(tool, arguments).await;
            text.replace(root.to_str().unwrap(), "[root]")
        };
        insta::assert_snapshot!(refusal("report", json!({"trace": "bad.flood"})).await, @"
        error: Failed to read `[root]/runs/bad.flood`
          Caused by: this is a text file, not a recording

        hint: record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message
        ");
        insta::assert_snapshot!(refusal("report", json!({"trace": "absent.flood"})).await, @"
        error: Failed to read `[root]/runs/absent.flood`
          Caused by: there is no such file

        hint: record one with `floodmark run -o FILE script.py`
        ");
        insta::assert_snapshot!(refusal("report", json!({"trace": "x.flood", "by": "colour"})).await, @"
        error: Failed to answer `report`
          Caused by: invalid value 'colour' for '--by <BY>'
          [possible values: line, stack, module, op, op-call, parameter, phase, category, tensor, step, segment]
        ");
        insta::assert_snapshot!(refusal("report", json!({"trace": "x.flood", "device": "cuda:7"})).await, @"
        error: Failed to report on `[root]/runs/x.flood`
          Caused by: nothing was recorded on cuda:7; the trace has cuda:0

        hint: choose one of them with `--device`
        ");
        insta::assert_snapshot!(refusal("report", json!({"trace": "x.flood", "json": true})).await, @"
        error: Failed to answer `report`
          Caused by: the tool has no argument `json`; it has `trace`, `device`, `rank`, `by`, `at`, `top`, `torch_frames`
        ");
        insta::assert_snapshot!(refusal("leaks", json!({"trace": ["x.flood"]})).await, @"
        error: Failed to answer `leaks`
          Caused by: the argument `trace` must be a string
        ");
        insta::assert_snapshot!(refusal("diff", json!({"a": "x.flood"})).await, @"
        error: Failed to answer `diff`
          Caused by: the argument `b` is missing
        ");
        insta::assert_snapshot!(refusal("estimate", json!({"program": "absent.py"})).await, @"
        error: Failed to run `[root]/runs/absent.py`
          Caused by: there is no such file

        hint: check the path; to run a module by its name, write `-m` before the name
        ");
        insta::assert_snapshot!(refusal("estimate", json!({"program": "x.flood", "gpu": "h300"})).await, @"
        error: Failed to simulate a `h300`
          Caused by: there is no GPU profile `h300`; did you mean `h100`, `h200` or `b200`?

        hint: list the profiles with `floodmark gpus`, pass your own as `--gpu FILE.toml`, or change the capacity of a profile with `--memory`
        ");
        let unknown = assistant.try_call("format_disk", json!({})).await.unwrap_err();
        assert!(unknown.to_string().contains("there is no tool `format_disk`"), "{unknown}");
        // None of these ended the server.
        assistant.call("report", json!({"trace": "x.flood"})).await;
        assistant.end().await;
    });
}

#[test]
fn nothing_outside_the_folders_is_read() {
    run(async {
        let folder = folder();
        let root = folder.path().canonicalize().unwrap();
        let secret = root.join("secret.flood");
        std::fs::write(root.join("gpu.toml"), "name = 'secret'").unwrap();
        symlink(&secret, root.join("runs/link.flood")).unwrap();
        symlink(&root, root.join("runs/out")).unwrap();
        let assistant = Assistant::start(&folder, "mcp runs").await;
        let listed = assistant.client.list_all_resources().await.unwrap();
        let names: Vec<&str> = listed.iter().map(|resource| &*resource.name).collect();
        let traces =
            ["bad.flood", "failed.flood", "ranks/rank-0000.flood", "ranks/rank-0001.flood"];
        assert_eq!(names[..4], traces);
        assert_eq!(names[4..], ["torch.pickle.gz", "x.flood"]);
        for path in
            ["../secret.flood", "link.flood", "out/secret.flood", "out", secret.to_str().unwrap()]
        {
            let message = assistant.refusal("report", json!({"trace": path})).await;
            assert!(message.contains("outside the folders"), "{path}: {message}");
            let uri = format!("flood://{}/runs/{path}", root.display());
            let uri = if path.starts_with('/') { format!("flood://{path}") } else { uri };
            let message = assistant.read(&uri).await.unwrap_err().to_string();
            assert!(message.contains("Failed to read"), "{path}: {message}");
        }
        for tool in ["estimate", "estimate_model", "fit", "plan"] {
            for mut given in [
                json!({"program": "../train.py"}),
                json!({"program": "x.flood", "gpu": "../gpu.toml"}),
                json!({"program": "/etc/passwd"}),
            ] {
                given["factory"] = json!("model");
                if tool != "estimate_model" {
                    given.as_object_mut().unwrap().remove("factory");
                }
                let message = assistant.refusal(tool, given).await;
                assert!(message.contains("outside the folders"), "{tool}: {message}");
            }
        }
        for other in [json!({"gpu": "../gpu.toml"}), json!({"output": "../y.flood"})] {
            let mut arguments = json!({"program": "x.flood"});
            arguments.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            let message = assistant.refusal("estimate", arguments).await;
            assert!(message.contains("outside the folders"), "{message}");
        }
        let message = assistant
            .refusal("estimate", json!({"program": "x.flood", "output": "failed.flood"}))
            .await;
        assert!(message.contains("the file exists"), "{message}");
        assistant.end().await;
    });
}

#[test]
fn a_resource_is_the_summary_of_a_trace() {
    run(async {
        let folder = folder();
        let root = folder.path().canonicalize().unwrap();
        let assistant = Assistant::start(&folder, "mcp runs/x.flood runs/bad.flood").await;
        let listed = assistant.client.list_all_resources().await.unwrap();
        assert_eq!(listed.len(), 2);
        let contents = assistant.read(&listed[0].uri).await.unwrap();
        let shown = serde_json::to_string_pretty(&contents).unwrap();
        insta::assert_snapshot!(shown.replace(root.to_str().unwrap(), "[root]"), @r#"
        [
          {
            "uri": "flood://[root]/runs/x.flood",
            "mimeType": "text/plain",
            "text": "[root]/runs/x.flood: 6 events in 0.005 s, 3 allocations, 1 thread\nPeak of cuda:0: 16.00 MiB allocated, 20.00 MiB reserved, outside forward/backward/optimizer, at 0.003 s\n  by         floodmark 0.1.0\n\nPeak of cuda:0: 16.00 MiB allocated, 20.00 MiB reserved, outside forward/backward/optimizer, at 0.003 s\n    Bytes  Cumulative     Median  Count  Location\n8.000 MiB   8.000 MiB  8.000 MiB      1  model.py:3 (forward)\n8.000 MiB   16.00 MiB  8.000 MiB      1  train.py:5 (main)\n"
          }
        ]
        "#);
        let message = assistant.read(&listed[1].uri).await.unwrap_err().to_string();
        insta::assert_snapshot!(message.replace(root.to_str().unwrap(), "[root]"), @"
        Mcp error: -32002: error: Failed to read `[root]/runs/bad.flood`
          Caused by: this is a text file, not a recording

        hint: record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message
        ");
        let message = assistant.read("file:///etc/passwd").await.unwrap_err().to_string();
        insta::assert_snapshot!(message, @"
        Mcp error: -32002: error: Failed to read `file:///etc/passwd`
          Caused by: the path is not absolute, or is not that of a trace

        hint: `resources/list` has the addresses
        ");
        assistant.end().await;
    });
}

#[test]
fn two_calls_at_once_are_both_answered() {
    run(async {
        let folder = folder();
        let assistant = Assistant::start(&folder, "mcp runs").await;
        let sweep = assistant.call("simulate", json!({"trace": "torch.pickle.gz", "sweep": true}));
        let report = assistant.call("report", json!({"trace": "x.flood"}));
        let (sweep, report) = tokio::join!(sweep, report);
        assert!(sweep.structured_content.unwrap()["runs"].as_array().unwrap().len() > 2);
        assert_eq!(text(&report), folder.stdout("report runs/x.flood"));
        assistant.end().await;
    });
}

#[test]
fn input_in_another_protocol_gets_json_errors_alone() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("mcp absent"), @"
    exit 1
    --- stderr
    error: Failed to read `absent`
      Caused by: No such file or directory (os error 2)
    ");
    let run = |message: &str| {
        let output = folder.command("mcp").write_stdin(message.to_owned()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), err)
    };
    assert_eq!(run(""), (0, String::new(), String::new()));
    let (status, out, err) = run("GET / HTTP/1.1\n");
    assert!(status == 0 && err.is_empty(), "{status} {err}");
    assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
}

#[test]
fn the_example_of_the_guide_is_real() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/assistants.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, example) = guide.split_once("This is one call").unwrap();
    let block = |fence: &str| {
        let (_, rest) = example.split_once(&format!("```{fence}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let call: Value = serde_json::from_str(&block("json")).unwrap();
    run(async {
        let folder = Folder::new()
            .with_recording("default-oom.pickle.gz", "allocator/default-oom.pickle.gz");
        let assistant = Assistant::start(&folder, "mcp").await;
        let result =
            assistant.call(call["name"].as_str().unwrap(), call["arguments"].clone()).await;
        assert_eq!(block("text"), text(&result));
        assistant.end().await;
    });
}

/// What the client of the library would never send.
#[test]
fn a_line_that_is_no_message_gets_an_answer() {
    let folder = folder();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let long = format!("{{\"id\": 2, \"long\": \"{}\"}}", "x".repeat(17 << 20));
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let lines = [hello.to_string(), ready.to_string(), "{not json".into(), long, ping.to_string()];
    let output = folder.command("mcp runs").write_stdin(lines.join("\n") + "\n").output().unwrap();
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<&Value> = answers
        .iter()
        .map(|answer| &answer["error"]["code"])
        .filter(|code| code.is_i64())
        .collect();
    assert_eq!(codes, [&json!(-32700), &json!(-32600)], "{answers:?}");
    assert!(answers.iter().any(|answer| answer["id"] == 3 && answer["result"].is_object()));
}
