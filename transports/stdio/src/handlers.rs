//! One handler a row of sepia: params in, a plane call, the result out. Clauses: S02–S30.

use crate::{connection::Client, forward, views};
use serde::Deserialize;
use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};
use triplane_common::rpc::{Armed, Call, Reply, Then, Turn, Wire};
use triplane_core::{
    PlaneError,
    plane::{Answer, Attach, Choice, Created, Import, Prompt, Rewind, WhenBusy, Written},
};
use triplane_protocol::{
    ErrorCode, Failure, SessionId,
    event::{CloseReason, SettingsPatch},
    ir,
    sepia::{self, *},
    table::{Handle, Row},
};

impl Wire for Client {
    type Method = sepia::Method;

    fn lookup(&self, name: &str) -> Option<(Self::Method, &'static Row)> {
        sepia::Method::from_name(name).map(|method| (method, method.row()))
    }

    fn key(&self, _: Self::Method, params: Option<&str>) -> Option<String> {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            id: Cow<'a, str>,
        }
        // What cannot be read here is refused by the row's own params, and need not wait for that.
        serde_json::from_str(params?).ok().map(|Named { id }| id.into_owned())
    }

    fn lasts(&self, method: Self::Method) -> bool {
        method == sepia::Method::PromptSession
    }

    async fn call(self: Arc<Self>, method: Self::Method, call: Call) -> Result<Reply, Failure> {
        if only_reads(method) {
            call.turn.pass_on();
        }
        let request = Request { client: self, armed: call.armed, turn: call.turn, then: Mutex::default() };
        let result = sepia::dispatch(&request, method, call.params.as_deref()).await?;
        let then = request.then.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Reply { result, then })
    }
}

/// Whether what follows need not wait for its end: it reads what is there when it starts.
fn only_reads(method: sepia::Method) -> bool {
    use sepia::Method::*;
    matches!(method, GetSession | SummarizeSession | ExportSession | ReadHistory | ConvertSession)
}

/// One request, when its turn has come.
struct Request {
    client: Arc<Client>,
    armed: Armed,
    /// Keeps later calls of the session from starting.
    turn: Turn,
    /// What follows the reply.
    then: Mutex<Option<Then>>,
}

impl Request {
    fn then(&self, then: impl FnOnce() + Send + 'static) {
        *self.then.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(then));
    }

    /// Errors: `NotFound`, `UnknownAgent`, `Ambiguous`.
    async fn must_be_of(&self, id: &SessionId, agent: Option<&str>) -> Result<(), Failure> {
        if agent.is_some() { Ok(self.client.plane.must_be_of(id, agent).await?) } else { Ok(()) }
    }

    /// Errors: `NotFound` with the hint to attach it.
    fn must_be_live(&self, id: &SessionId) -> Result<(), Failure> {
        if self.client.plane.is_live(id) { Ok(()) } else { Err(PlaneError::not_live(id).into()) }
    }
}

impl Handle<ShowManifest> for Request {
    async fn handle(&self, _: Nothing) -> Result<Manifest, Failure> {
        let Client { plane, config, .. } = &*self.client;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Manifest {
            name: "triplane".into(),
            version: config.version.clone(),
            protocol: PROTOCOL,
            node: Node { id: plane.node().id.clone(), name: plane.node().name.clone() },
            config: Lifecycle {
                idle_ttl_ms: config.idle_ttl.map(ms),
                sweep_ms: ms(config.sweep),
                history_limit: u64::try_from(plane.config().limits.history_limit).unwrap_or(u64::MAX),
                probe_idle_ms: ms(config.probe_idle),
            },
            methods: sepia::served().map(str::to_owned).collect(),
            listeners: config.listeners.clone(),
        })
    }
}

impl Handle<ListAgents> for Request {
    async fn handle(&self, _: Nothing) -> Result<Agents, Failure> {
        self.client.plane.learn().await;
        Ok(Agents { agents: self.client.plane.agents().into_iter().map(views::agent).collect() })
    }
}

impl Handle<ListSessions> for Request {
    async fn handle(&self, params: ListParams) -> Result<Sessions, Failure> {
        let rows = self.client.plane.rows(params.with_locks).await?;
        Ok(Sessions { sessions: rows.into_iter().map(views::row).collect() })
    }
}

impl Handle<PatchMeta> for Request {
    async fn handle(&self, params: PatchMetaParams) -> Result<SessionRow, Failure> {
        Ok(views::row(
            self.client.plane.patch_meta(&params.id, params.agent.as_deref(), views::patch(params.patch)).await?,
        ))
    }
}

impl Handle<ListProjects> for Request {
    async fn handle(&self, _: Nothing) -> Result<Projects, Failure> {
        let projects = self.client.plane.projects().await?;
        Ok(Projects { projects: projects.into_iter().map(views::project).collect() })
    }
}

impl Handle<CreateProject> for Request {
    async fn handle(&self, params: CreateProjectParams) -> Result<Project, Failure> {
        Ok(views::project(self.client.plane.create_project(&params.name).await?))
    }
}

impl Handle<RenameProject> for Request {
    async fn handle(&self, params: RenameProjectParams) -> Result<Project, Failure> {
        Ok(views::project(self.client.plane.rename_project(&params.id, &params.name).await?))
    }
}

impl Handle<DeleteProject> for Request {
    async fn handle(&self, params: ProjectRef) -> Result<Deleted, Failure> {
        self.client.plane.delete_project(&params.id).await?;
        Ok(Deleted { deleted: true })
    }
}

impl Handle<GetSession> for Request {
    async fn handle(&self, params: SessionRef) -> Result<ir::Session, Failure> {
        Ok(self.client.plane.export(&params.id, params.agent.as_deref()).await?)
    }
}

impl Handle<ExportSession> for Request {
    async fn handle(&self, params: SessionRef) -> Result<Exported, Failure> {
        Ok(Exported { session: self.client.plane.export(&params.id, params.agent.as_deref()).await? })
    }
}

impl Handle<ImportSession> for Request {
    async fn handle(&self, params: ImportParams) -> Result<Imported, Failure> {
        let session = views::read_session(params.session)?;
        let import =
            Import { id: params.id, cwd: params.cwd.map(Into::into), title: params.title, model: params.model };
        let Written { id, agent, lost } = self.client.plane.import(&params.agent, session, import).await?;
        Ok(Imported { id, agent_id: agent, lost })
    }
}

impl Handle<ConvertSession> for Request {
    async fn handle(&self, params: ConvertParams) -> Result<Converted, Failure> {
        let plane = &self.client.plane;
        let Written { id, agent, lost } = plane.convert(&params.id, &params.agent, params.from.as_deref()).await?;
        Ok(Converted { session_id: id, agent_id: agent, lost })
    }
}

impl Handle<DeleteSession> for Request {
    async fn handle(&self, params: SessionRef) -> Result<Deleted, Failure> {
        self.client.plane.delete(&params.id, params.agent.as_deref()).await?;
        Ok(Deleted { deleted: true })
    }
}

impl Handle<ListConfig> for Request {
    async fn handle(&self, params: ConfigListParams) -> Result<Vec<ConfigEntry>, Failure> {
        let counts = self.client.plane.config_list(params.agent.as_deref(), params.dir.as_deref()).await?;
        Ok(counts.into_iter().map(views::config_entry).collect())
    }
}

impl Handle<GetConfig> for Request {
    async fn handle(&self, params: ConfigParams) -> Result<AgentConfig, Failure> {
        Ok(self.client.plane.config_get(&params.agent, params.dir.as_deref()).await?)
    }
}

impl Handle<ImportConfig> for Request {
    async fn handle(&self, params: ConfigImportParams) -> Result<ConfigImported, Failure> {
        let ConfigImportParams { agent, dir, config, dry_run } = params;
        let config = AgentConfig::parse(config, &agent)
            .map_err(|why| Failure::new(ErrorCode::Invalid, format!("config: {why}")).because(why))?;
        let actions = self.client.plane.config_import(&agent, dir.as_deref(), &config, dry_run).await?;
        Ok(ConfigImported { actions })
    }
}

impl Handle<RestoreFiles> for Request {
    async fn handle(&self, params: RestoreParams) -> Result<Restored, Failure> {
        let RestoreRequest { to, paths, dry_run } = params.request;
        Ok(views::restored(self.client.plane.restore(&params.id, to, paths, dry_run).await?))
    }
}

impl Handle<RewindSession> for Request {
    async fn handle(&self, params: RewindParams) -> Result<Rewound, Failure> {
        let RewindRequest { to, files, dry_run } = params.request;
        let rewound = self.client.plane.rewind(&params.id, Rewind { to, files, dry: dry_run }).await?;
        Ok(Rewound {
            removed: u64::try_from(rewound.removed).unwrap_or(u64::MAX),
            prompt: rewound.prompt,
            files: views::restored(rewound.files),
        })
    }
}

impl Handle<SummarizeSession> for Request {
    async fn handle(&self, params: SessionRef) -> Result<Summary, Failure> {
        let agent = params.agent.as_deref();
        let row = self.client.plane.meta_row(&params.id, agent).await?;
        let messages = self.client.plane.messages_of(&params.id, agent).await?.len();
        Ok(Summary { row: views::row(row), message_count: u64::try_from(messages).unwrap_or(u64::MAX) })
    }
}

impl Handle<ReadHistory> for Request {
    async fn handle(&self, params: HistoryParams) -> Result<HistoryPage, Failure> {
        if params.limit == Some(0) {
            return Err(Failure::new(ErrorCode::InvalidParams, "limit: must be at least 1"));
        }
        let limit = params.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let page =
            self.client.plane.history(&params.id, params.agent.as_deref(), limit, params.before.as_ref()).await?;
        Ok(HistoryPage { messages: page.messages, before: page.before })
    }
}

impl Handle<AttachSession> for Request {
    async fn handle(&self, params: AttachParams) -> Result<Attached, Failure> {
        let Client { plane, hold, .. } = &*self.client;
        let AttachParams { id, agent, takeover, model, fallbacks } = params;
        let attach = Attach { agent, takeover, model, fallbacks };
        let attached = plane.attach_with(hold, &id, attach).await?;
        Ok(views::attached(attached.session, attached.read_only))
    }
}

impl Handle<DetachSession> for Request {
    async fn handle(&self, params: LiveRef) -> Result<Detached, Failure> {
        match self.client.plane.detach(&params.id, CloseReason::Explicit).await? {
            true => Ok(Detached { detached: true }),
            false => Err(PlaneError::not_live(&params.id).into()),
        }
    }
}

impl Handle<CreateSession> for Request {
    async fn handle(&self, params: CreateParams) -> Result<Attached, Failure> {
        let Client { plane, hold, .. } = &*self.client;
        let created = Created {
            cwd: Some(params.cwd.into()),
            agent: params.agent,
            settings: SettingsPatch { model: params.model, title: params.title, ..SettingsPatch::default() },
            fallbacks: params.fallbacks,
            label: None,
            parent: None,
            source: Some("sepia".into()),
        };
        Ok(views::attached(plane.create(hold, created).await?, false))
    }
}

impl Handle<PromptSession> for Request {
    async fn handle(&self, params: PromptParams) -> Result<PromptOutcome, Failure> {
        if params.parts.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidParams, "parts: must have at least one part"));
        }
        self.must_be_live(&params.id)?;
        self.must_be_of(&params.id, params.agent.as_deref()).await?;
        let prompt = Prompt {
            parts: params.parts.into_iter().map(ir::Part::from).collect(),
            when_busy: WhenBusy::Refuse,
            armed: self.armed.token().clone(),
        };
        let run = self.client.plane.prompt(&params.id, prompt).await?;
        self.armed.begun();
        self.turn.pass_on();
        let result = run.finished().await?;
        self.client.told(&params.id, result.last_seq).await;
        Ok(views::outcome(result))
    }
}

impl Handle<CancelSession> for Request {
    async fn handle(&self, params: LiveRef) -> Result<Cancelled, Failure> {
        Ok(Cancelled { cancelled: self.client.plane.cancel(&params.id).await? })
    }
}

impl Handle<AnswerPermission> for Request {
    async fn handle(&self, params: PermissionParams) -> Result<Resolved, Failure> {
        let answer = Answer { choice: Choice::Option(params.option), reason: None, by: Some("sepia".into()) };
        self.client.plane.answer(&params.id, &params.request, answer).await?;
        Ok(Resolved { resolved: true })
    }
}

impl Handle<SubscribeSession> for Request {
    async fn handle(&self, params: LiveRef) -> Result<SessionSubscribed, Failure> {
        self.must_be_live(&params.id)?;
        let place = self.client.subscription()?;
        let cursor = self.client.plane.subscribe(&params.id).await?;
        // It may have ended just before the position stood; then its end would never come.
        self.must_be_live(&params.id)?;
        let Client { outbox, drain, .. } = &*self.client;
        let (forward, progress) =
            forward::SessionForward::new(params.id.clone(), cursor, outbox.clone(), drain.clone());
        let forward = forward.among(self.client.follows(&params.id, progress));
        let client = self.client.clone();
        self.then(move || {
            client.forwards.spawn(async move {
                forward.run().await;
                drop(place);
            });
        });
        Ok(SessionSubscribed { subscribed: true, session_id: params.id })
    }
}

impl Handle<SubscribeNode> for Request {
    async fn handle(&self, _: Nothing) -> Result<NodeSubscribed, Failure> {
        let place = self.client.subscription()?;
        let (feed, live) = self.client.plane.subscribe_node();
        let client = self.client.clone();
        self.then(move || {
            let (outbox, drain) = (client.outbox.clone(), client.drain.clone());
            let readers = client.node_readers.clone();
            readers.fetch_add(1, Ordering::Relaxed);
            client.forwards.spawn(async move {
                forward::node(feed, outbox, drain).await;
                readers.fetch_sub(1, Ordering::Relaxed);
                drop(place);
            });
        });
        Ok(NodeSubscribed { subscribed: true, live })
    }
}

impl Handle<Shutdown> for Request {
    async fn handle(&self, _: Nothing) -> Result<Done, Failure> {
        let end = self.client.end.clone();
        self.then(move || end.cancel());
        Ok(Done {})
    }
}
