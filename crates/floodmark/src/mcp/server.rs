//! Handles protocol requests: lists tools and resources, calls a tool, reads a resource.
//!
//! Each call runs on its own thread, so that one does not delay others.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::arguments::Object;
use super::folders::Folders;
use super::progress::Progress;
use super::refusal::Refusal;
use super::tools::{ToolAnswer, runs_program};
use super::{programs, resources, tools};
use crate::text::failure::{Failure, Result, plain_message};

/// The most calls at a time: each has a trace in memory.
const CALLS_AT_ONCE: usize = 4;

const INSTRUCTIONS: &str = "floodmark shows what fills the memory of a PyTorch program. A trace is a `.flood` file or a \
     torch memory snapshot (`.pickle`); each trace that this server may read is a resource. Paths are relative to the \
     server's folders, or absolute. Begin with `info` or `report`; `oom` explains a failed allocation or torch's message; \
     `advise` suggests changes with the bytes that each saves. `estimate` runs a script on a simulated GPU, `fit` finds the \
     largest batch that fits and `plan` the cheapest changes with which a program fits. All sizes in the JSON are bytes.";

/// The state of the server.
#[derive(Debug)]
pub(super) struct Server {
    folders: Arc<Folders>,
    /// The interpreter that runs programs.
    python: OsString,
    tools: Vec<Tool>,
    calls: Arc<Semaphore>,
}

impl Server {
    pub(super) fn new(folders: Folders, python: &OsStr, runs_programs: bool) -> Self {
        Self {
            folders: Arc::new(folders),
            python: python.to_owned(),
            tools: tools::tools(runs_programs),
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)),
        }
    }

    async fn answer(&self, name: String, given: Object, progress: &Progress) -> Result<ToolAnswer> {
        if runs_program(&name) {
            return programs::answer(&name, given, &self.folders, &self.python, progress).await;
        }
        self.compute(move |folders| tools::answer(&name, given, folders)).await
    }

    /// Runs blocking work on a thread. A cancelled call does not wait for it.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folders) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let folders = Arc::clone(&self.folders);
        let permit = Arc::clone(&self.calls).acquire_owned().await.map_err(|_| Refusal::Bug)?;
        let done = spawn_blocking(move || {
            let _permit = permit;
            work(&folders)
        });
        done.await.unwrap_or_else(|_| Err(Failure::from(Refusal::Bug)))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("floodmark", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        if self.tools.iter().all(|tool| tool.name != name) {
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        }
        let progress = Progress::from_context(&context);
        let given = request.arguments.unwrap_or_default();
        let answered = tokio::select! {
            answered = self.answer(name, given, &progress) => answered,
            () = context.ct.cancelled() => Err(Failure::from(Refusal::Cancelled)),
        };
        let result = match answered {
            Ok(answer) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
                result.structured_content = Some(answer.json);
                result
            }
            Err(error) => CallToolResult::error(vec![ContentBlock::text(plain_message(&error))]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.compute(|folders| Ok(resources::list(folders))).await;
        listed.map(ListResourcesResult::with_all_items).map_err(|error| unreadable(&error))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let read = tokio::select! {
            read = self.compute(move |folders| resources::read(&uri, folders)) => read,
            () = context.ct.cancelled() => Err(Failure::from(Refusal::Cancelled)),
        };
        let text = read.map_err(|error| unreadable(&error))?;
        let contents = ResourceContents::text(text, request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Converts a failure to a protocol error: a resource, unlike a tool, has no error result.
fn unreadable(error: &Failure) -> ErrorData {
    ErrorData::resource_not_found(plain_message(error), None)
}
