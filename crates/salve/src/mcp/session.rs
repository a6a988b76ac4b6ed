//! One client's session: the protocol on one side, the way to the store on the other.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler};
use salve_core::id::IncidentId;
use salve_core::repair::WaitingTask;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::access::ToolAccess;
use super::news::ResourceChanges;
use super::resource::{self, ResourceAddress, ResourceError};
use super::tool::{self, BadCall, RepairToolCall};
use super::{RepairTools, RepairToolsError};
use crate::store::{NewsListener, StoreBusy};

/// The most resources a client may listen to.
const MOST_WATCHED: usize = 1_000;

const INSTRUCTIONS: &str = "Salve keeps this project's dev servers and checks alive. When a server crashes, \
    call canvas_get_repair_task: if `pending` is true, read the crash log, apply a minimal fix \
    with your file tools, and report with canvas_mark_repair_step. Salve restarts the server and \
    verifies it; do not restart it yourself. Tell of other trouble with heal_report_issue; what is \
    open and where your proposal is wanted, heal_get_open_issues tells. When a tool fails, ask check_known_issues \
    before you debug it, let debug_tool find its source, and teach what fixed it with learn_tool_fix. Questions to a person are answered by the user with \
    `salve approve` and the like, never by you.";

/// Whether clients keep a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// One client, for as long as the process lives.
    Stdio,
    /// Clients that come and go.
    Http,
}

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    access: ToolAccess,
    manner: Manner,
    /// The attempt for which this client got each repair's task.
    attempts: Mutex<HashMap<IncidentId, u32>>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    news: Mutex<Option<NewsListener>>,
}

impl Session {
    /// Makes a session of the one client on stdin and stdout.
    pub(super) fn new(access: ToolAccess) -> Self {
        Self::of(access, Manner::Stdio)
    }

    /// Makes a session in a manner.
    pub(super) fn of(access: ToolAccess, manner: Manner) -> Self {
        // What changes from now on is heard, even before the client says that it is ready.
        let news = Mutex::new(Some(access.listen()));
        let (attempts, watched) = (Mutex::default(), Arc::default());
        Self { access, manner, attempts, watched, news }
    }

    /// Takes in that the client is there.
    fn hear(&self, name: &str) {
        let (name, manner) = (name.to_owned(), self.manner);
        self.access.tell(move |room| match manner {
            Manner::Stdio => room.arrive(&name),
            Manner::Http => room.hear(&name),
        });
    }

    /// Returns the client's name, and takes in that it is there.
    fn client(&self, context: &RequestContext<RoleServer>) -> String {
        let name = context.client_info().map(|info| info.name).unwrap_or_default();
        self.hear(&name);
        name
    }

    /// Answers a call of a tool.
    async fn answer(
        &self,
        client: String,
        call: RepairToolCall,
    ) -> Result<CallToolResult, StoreBusy> {
        match call {
            RepairToolCall::Task(server) => {
                let task =
                    self.access.ask(move |room| room.task(&client, server.as_deref())).await?;
                if let Ok(WaitingTask::Repair(task)) = &task {
                    lock(&self.attempts).insert(task.repair_id, task.attempt);
                }
                Ok(result(task))
            }
            RepairToolCall::Mark(mut report) => {
                if report.attempt.is_none() {
                    let id = report.repair_id.trim().parse::<IncidentId>();
                    let attempts = lock(&self.attempts);
                    report.attempt = id.ok().and_then(|id| attempts.get(&id).copied());
                }
                Ok(result(self.access.ask(move |room| room.mark(&client, &report)).await?))
            }
            RepairToolCall::Status(server) => {
                Ok(result(self.access.ask(move |room| room.status(server.as_deref())).await?))
            }
            RepairToolCall::Errors(server) => {
                Ok(result(self.access.ask(move |room| room.errors(server.as_deref())).await?))
            }
            RepairToolCall::Memory(call) => {
                Ok(result(self.access.ask(move |room| room.memory(&call)).await?))
            }
            RepairToolCall::Skill(call) => {
                let place = self.access.place().clone();
                let ran = tokio::task::spawn_blocking(move || call.run(&place)).await;
                let died = |_| RepairToolsError::Skill("it broke off".to_owned());
                Ok(result(ran.unwrap_or_else(|error| Err(died(error)))))
            }
            RepairToolCall::Debug(call) => {
                Ok(result(self.access.ask(move |room| room.debug(&client, &call)).await?))
            }
            RepairToolCall::Team(call) => {
                Ok(result(self.access.ask(move |room| room.team(&client, &call)).await?))
            }
        }
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RepairTools<'_>) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        self.access
            .ask(work)
            .await
            .map_err(|busy| ErrorData::internal_error(busy.to_string(), None))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an answer as the protocol has it: for programs and as text.
fn result<T: Serialize>(answer: Result<T, RepairToolsError>) -> CallToolResult {
    match answer {
        Ok(answer) => CallToolResult::structured(json!(answer)),
        Err(error) => refusal(&error.to_string(), &error.advice()),
    }
}

fn refusal(error: &str, next_step: &str) -> CallToolResult {
    let value: Value = json!({ "ok": false, "error": error, "nextStep": next_step });
    CallToolResult::structured_error(value)
}

fn unreadable(error: &ResourceError) -> ErrorData {
    match error {
        ResourceError::Missing(_) => ErrorData::resource_not_found(error.to_string(), None),
        ResourceError::Log(_) | ResourceError::Room(_) => {
            ErrorData::internal_error(error.to_string(), None)
        }
    }
}

/// Tells a client of what changed, until it is gone.
async fn tell(
    peer: Peer<RoleServer>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    mut news: NewsListener,
) {
    loop {
        let (opened, changed) = match news.recv().await {
            Ok(entries) => {
                let changes = ResourceChanges::of(&entries);
                let uris = ResourceAddress::changed(&changes);
                let watched = lock(&watched);
                (changes.opened, uris.into_iter().filter(|uri| watched.contains(uri)).collect())
            }
            // What was missed may have been anything.
            Err(RecvError::Lagged(_)) => (true, lock(&watched).iter().cloned().collect::<Vec<_>>()),
            Err(RecvError::Closed) => return,
        };
        if opened && peer.notify_resource_list_changed().await.is_err() {
            return;
        }
        for uri in changed {
            let update = ResourceUpdatedNotificationParam::new(uri);
            if peer.notify_resource_updated(update).await.is_err() {
                return;
            }
        }
    }
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("salve", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.hear(&request.client_info.name);
        if matches!(self.manner, Manner::Stdio) {
            // Before it is answered: what it does next, it does as an agent.
            let _ = self.access.ask(|room| room.remember_client()).await;
        }
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Some(news) = lock(&self.news).take() {
            tokio::spawn(tell(context.peer, self.watched.clone(), news));
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.client(&context);
        Ok(ListToolsResult::with_all_items(tool::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.client(&context);
        let call = match tool::parse(&request.name, request.arguments) {
            Ok(call) => call,
            Err(bad @ BadCall::NoTool) => {
                return Err(ErrorData::invalid_params(bad.to_string(), None));
            }
            Err(bad @ BadCall::Arguments(_)) => {
                let error = self.ask(move |room| room.scrubber().scrub(&bad.to_string())).await?;
                let next_step = "The tool's inputSchema says what it takes.";
                return Ok(refusal(error.as_str(), next_step).into());
            }
        };
        let answer = self.answer(client, call).await;
        Ok(answer.unwrap_or_else(|busy| refusal(&busy.to_string(), "Call it again.")).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.client(&context);
        let list = self.ask(resource::list).await?;
        let list = list.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(ListResourcesResult::with_all_items(list))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resource::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.client(&context);
        let uri = request.uri;
        let read = self.ask(move |room| resource::read(room, &uri)).await?;
        let contents = read.map_err(|error| unreadable(&error))?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if ResourceAddress::parse(&request.uri).is_none() {
            let missing = ResourceError::Missing(request.uri.chars().take(120).collect());
            return Err(unreadable(&missing));
        }
        let mut watched = lock(&self.watched);
        if watched.len() >= MOST_WATCHED {
            return Err(ErrorData::invalid_params("too many subscriptions", None));
        }
        watched.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.watched).remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.clone().unwrap_or_default();
        let ours =
            uris.into_iter().filter(|uri| ResourceAddress::parse(uri).is_some()).take(MOST_WATCHED);
        let filter = SubscriptionFilter::builder().resources_list_changed();
        Some(filter.resource_subscriptions(ours.collect::<Vec<_>>()).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut news = self.access.listen();
        let sink = context.sink();
        let wanted = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        loop {
            let news = tokio::select! {
                () = context.cancelled() => return Ok(()),
                news = news.recv() => news,
            };
            let (opened, changed) = match news {
                Ok(entries) => {
                    let changes = ResourceChanges::of(&entries);
                    let uris = ResourceAddress::changed(&changes);
                    (changes.opened, uris.into_iter().filter(|uri| wanted.contains(uri)).collect())
                }
                Err(RecvError::Lagged(_)) => (true, wanted.clone()),
                Err(RecvError::Closed) => return Ok(()),
            };
            // A client that wants only one of both, or has left, is not told the rest.
            if opened {
                let _unwanted = sink.notify_resource_list_changed().await;
            }
            for uri in changed {
                let _unwanted = sink.notify_resource_updated(uri).await;
            }
        }
    }
}
