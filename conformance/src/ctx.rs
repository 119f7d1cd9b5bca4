//! What a case is given: the wire it runs on, a directory of its own, and servers started in it.

use crate::{
    book::{HttpBook, RpcBook},
    case::Wire,
    client::{
        Front, LarikFront, LichFront, SepiaFront,
        http::Http,
        rpc::{Pipe, Rpc},
        stdio::Lines,
        ws::WsAddr,
    },
    json::Json,
    lacks::Lacks,
    runner::Options,
    target::{
        Launch, Server, Target,
        foreign::Foreign,
        server::{Failed, Trail},
    },
    verdict::{Outcome, Stop},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, OnceLock},
    time::Duration,
};
use triplane_protocol::{larik, lich, sepia};

/// The tables of the three wires, compiled once a process.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// lich's.
    pub lich: Arc<RpcBook>,
    /// larik's.
    pub larik: Arc<HttpBook>,
    /// sepia's.
    pub sepia: Arc<RpcBook>,
}

impl Books {
    /// The tables of this build.
    pub fn get() -> Outcome<Self> {
        static BOOKS: OnceLock<Outcome<Books>> = OnceLock::new();
        BOOKS.get_or_init(Self::load).clone()
    }

    /// The same tables for a server that does not have all of them.
    fn with_lacks(&self, lacks: &Arc<Lacks>) -> Self {
        Self {
            lich: Arc::new(self.lich.with_lacks(lacks)),
            larik: Arc::new(self.larik.with_lacks(lacks)),
            sepia: Arc::new(self.sepia.with_lacks(lacks)),
        }
    }

    fn load() -> Outcome<Self> {
        Ok(Self {
            lich: Arc::new(RpcBook::new(lich::ROWS, lich::NOTIFICATIONS)?),
            larik: Arc::new(HttpBook::new(larik::ROWS)?),
            sepia: Arc::new(RpcBook::new(sepia::ROWS, sepia::NOTIFICATIONS)?),
        })
    }
}

/// The flags of a server whose tools never ask.
const BYPASS: [&str; 2] = ["--mode", "bypass"];

/// What a case is given.
#[derive(Debug)]
pub struct Ctx {
    /// The wire that this run of the case is about.
    pub wire: Wire,
    /// Deadlines and the like.
    pub options: Options,
    target: Target,
    books: Books,
    dir: tempfile::TempDir,
    trails: Vec<Trail>,
}

impl Ctx {
    /// A fresh directory for one case on one wire.
    pub fn new(target: &Target, wire: Wire, options: &Options) -> Outcome<Self> {
        let dir = tempfile::Builder::new().prefix("triplane-case-").tempdir().map_err(Stop::harness)?;
        let ctx = Self {
            wire,
            options: options.clone(),
            target: target.clone(),
            books: Books::get()?.with_lacks(&options.lacks),
            dir,
            trails: Vec::new(),
        };
        for path in [ctx.work(), ctx.home()] {
            std::fs::create_dir_all(path).map_err(Stop::harness)?;
        }
        Ok(ctx)
    }

    /// The directory that servers work in.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// `$HOME` of the servers.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A path of the case's own, outside of the servers' directories.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// How to start a server for the case's wire, without flags.
    pub fn launch(&self) -> Launch {
        Launch {
            wires: vec![self.wire],
            args: Vec::new(),
            env: Vec::new(),
            cwd: self.work(),
            home: self.home(),
            free_port: true,
            triplane_home: true,
            umask: None,
        }
    }

    /// A server for the case's wire: started without flags, or the one that is there.
    pub async fn serve(&mut self) -> Outcome<On> {
        let launch = self.launch();
        self.start(&launch).await
    }

    /// A server for the case's wire in which tools never ask.
    pub async fn serve_bypass(&mut self) -> Outcome<On> {
        let launch = self.launch().args(BYPASS);
        self.start(&launch).await
    }

    /// A server. One that is not started by the runner is taken as it is, and only where no more than that is asked for.
    pub async fn start(&mut self, launch: &Launch) -> Outcome<On> {
        let mut on = On {
            server: None,
            target: self.target.clone(),
            wire: self.wire,
            books: self.books.clone(),
            deadline: self.options.deadline,
            work: self.work(),
            foreign: None,
        };
        match &self.target {
            Target::Spawn(program) => {
                let server = Server::start(program, launch, self.options.deadline).await?;
                self.trails.push(server.trail());
                on.server = Some(server);
            }
            Target::Stdio(command) => {
                self.taken_as_it_is(launch)?;
                let foreign = Foreign::start(command, &self.work(), &self.home(), self.options.deadline)?;
                self.trails.push(foreign.trail());
                on.foreign = Some(foreign);
            }
            Target::Ws { .. } | Target::Http { .. } => self.taken_as_it_is(launch)?,
        }
        Ok(on)
    }

    /// Skips the case if the server would have to be started in a certain way.
    fn taken_as_it_is(&self, launch: &Launch) -> Outcome {
        let bypass = self.options.bypass && launch.args == BYPASS;
        let plain = (launch.args.is_empty() || bypass) && launch.env.is_empty() && launch.wires == [self.wire];
        if plain {
            return Ok(());
        }
        let args: Vec<_> = launch.args.iter().map(|arg| arg.to_string_lossy()).collect();
        Err(Stop::skip(format!("needs a server started with {}", args.join(" "))))
    }

    /// Starts a server that may rightly refuse to come up.
    pub async fn try_start(&mut self, launch: &Launch) -> Outcome<Result<Server, Failed>> {
        let Target::Spawn(program) = &self.target else { return Err(Stop::skip("needs a server of our own")) };
        Server::try_start(program, launch, self.options.deadline).await
    }

    /// The program under test.
    pub fn program(&self) -> Outcome<&Path> {
        match &self.target {
            Target::Spawn(program) => Ok(program),
            Target::Ws { .. } | Target::Http { .. } | Target::Stdio(_) => Err(Stop::skip("needs a server of our own")),
        }
    }

    /// What the servers of this case left behind.
    pub fn trails(&self) -> &[Trail] {
        &self.trails
    }
}

/// A server that answers.
#[derive(Debug)]
pub struct On {
    /// The process, when it is ours.
    pub server: Option<Server>,
    target: Target,
    wire: Wire,
    books: Books,
    deadline: Duration,
    work: PathBuf,
    foreign: Option<Foreign>,
}

impl On {
    /// The process; a case that asks for it declares the need.
    pub fn server(&mut self) -> Outcome<&mut Server> {
        self.server.as_mut().ok_or_else(|| Stop::skip("needs a server of our own"))
    }

    /// Where lich listens.
    pub fn ws_addr(&self) -> Outcome<WsAddr> {
        let (addr, path, token) = match (&self.server, &self.target) {
            (Some(server), _) => {
                let ready = server.ready_line(Wire::Ws)?;
                let port = u16::try_from(ready.int("/port")?).map_err(|_| Stop::broke(format!("port in {ready}")))?;
                (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "/".to_owned(), ready.text("/token")?)
            }
            (None, Target::Ws { addr, path, token }) => (*addr, path.clone(), token.clone()),
            (None, _) => return Err(Stop::skip("no lich server")),
        };
        Ok(WsAddr { addr, path, token, deadline: self.deadline })
    }

    /// A new socket.
    pub async fn ws(&self) -> Outcome<Rpc> {
        let socket = self.ws_addr()?.open().await?;
        Ok(Rpc::new(Pipe::Ws(Box::new(socket)), self.books.lich.clone(), self.deadline))
    }

    /// Where larik listens.
    pub fn http(&self) -> Outcome<Http> {
        let (addr, token) = match (&self.server, &self.target) {
            (Some(server), _) => {
                let ready = server.ready_line(Wire::Http)?;
                let url = ready.text("/url")?;
                let addr = url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').parse().ok());
                (addr.ok_or_else(|| Stop::broke(format!("no address in the url {url:?}")))?, ready.text("/token")?)
            }
            (None, Target::Http { addr, token }) => (*addr, token.clone()),
            (None, _) => return Err(Stop::skip("no larik server")),
        };
        Ok(Http { addr, token, deadline: self.deadline, book: Some(self.books.larik.clone()) })
    }

    /// The stdio wire; there is one.
    pub fn stdio(&mut self) -> Outcome<Rpc> {
        let lines = self.lines()?;
        Ok(Rpc::new(Pipe::Stdio(Box::new(lines)), self.books.sepia.clone(), self.deadline))
    }

    /// How a command of somebody else's ended, if it has, and what it said on stderr.
    pub(crate) async fn last_words(&mut self) -> (Option<ExitStatus>, String) {
        match &mut self.foreign {
            Some(foreign) => foreign.ended(Duration::from_millis(500)).await,
            None => (None, String::new()),
        }
    }

    /// The pipes of the stdio wire.
    pub(crate) fn lines(&mut self) -> Outcome<Lines> {
        if let Some(server) = &mut self.server {
            return server.take_pipes();
        }
        let foreign = self.foreign.as_mut().ok_or_else(|| Stop::skip("no sepia server"))?;
        foreign.take_pipes()
    }

    /// Ends the case unless the token lets somebody in.
    pub async fn front_opens(&self, wire: Wire) -> Outcome {
        match wire {
            Wire::Ws => self.ws().await.map(drop),
            Wire::Http => self.http()?.get("/v1/info").await?.want(200).map(drop),
            Wire::Stdio => Ok(()),
        }
    }

    /// A JSON-RPC client on the case's wire.
    pub async fn rpc(&mut self) -> Outcome<Rpc> {
        match self.wire {
            Wire::Ws => self.ws().await,
            Wire::Stdio => self.stdio(),
            Wire::Http => Err(Stop::harness("HTTP is no JSON-RPC wire")),
        }
    }

    /// What all wires have in common, on the case's wire.
    pub async fn front(&mut self) -> Outcome<Box<dyn Front>> {
        self.front_on(self.wire).await
    }

    /// The same on any wire that the server speaks.
    pub async fn front_on(&mut self, wire: Wire) -> Outcome<Box<dyn Front>> {
        Ok(match wire {
            Wire::Ws => Box::new(LichFront::new(self.ws().await?, self.server.as_ref().map(Server::session_dir))),
            Wire::Http => Box::new(LarikFront::new(self.http()?)),
            Wire::Stdio => {
                let cwd = self.server.as_ref().map_or_else(|| self.work.clone(), |server| server.cwd.clone());
                Box::new(SepiaFront::new(self.stdio()?, cwd))
            }
        })
    }
}
