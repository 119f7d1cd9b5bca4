//! The file: where it is, who may read it, which version it has.
//! Invariants: it is 0600 from its first moment, and `-wal` and `-shm` take that after it; it is never reached through a symlink;
//! a file of a later version is left alone. Clause: C16.

use super::OverlayError;
use crate::store::files;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long a statement waits for another process. Commits take milliseconds; a checkpoint of a large log a second or two.
const BUSY: Duration = Duration::from_secs(5);

/// How long opening is tried: whoever makes the file, or mends it after a kill, has it to himself for a moment.
const OPEN: Duration = Duration::from_secs(10);

/// Steps from one version to the next; the file's `user_version` says how many were taken.
const STEPS: &[&str] = &[
    "
    CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL);
    INSERT INTO state VALUES (1, 1);
    CREATE TABLE metas (
        session TEXT NOT NULL PRIMARY KEY, title TEXT, pinned INTEGER NOT NULL, archived INTEGER NOT NULL, model TEXT
    ) WITHOUT ROWID;
    CREATE TABLE projects (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE members (
        session TEXT NOT NULL, place INTEGER NOT NULL, project TEXT NOT NULL, PRIMARY KEY (session, place)
    ) WITHOUT ROWID;
    CREATE INDEX members_of ON members (project);
    CREATE TABLE spans (
        session TEXT NOT NULL, generation INTEGER NOT NULL, agent TEXT NOT NULL, model TEXT,
        started INTEGER NOT NULL, ended INTEGER, PRIMARY KEY (session, generation)
    ) WITHOUT ROWID;
    CREATE TABLE pending (
        dir TEXT NOT NULL, session TEXT NOT NULL, given TEXT NOT NULL, PRIMARY KEY (dir, session)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE listed (
        dir TEXT NOT NULL, session TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (dir, session)
    ) WITHOUT ROWID;
",
];

/// Where the file is.
#[derive(Debug)]
pub(super) struct Place {
    home: PathBuf,
    path: PathBuf,
}

/// Which file a connection has; another one may have taken its name since.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity(sys::Identity);

impl Place {
    pub(super) fn new(home: &Path) -> Self {
        // SQLite refuses a path through a symlink; the home's own may have some.
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        Self { path: home.join("plane.db"), home }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that has the name now.
    pub(super) fn identity(&self) -> Option<Identity> {
        fs::symlink_metadata(&self.path).ok().map(|meta| Identity(sys::identity(&meta)))
    }

    /// A connection to the file, which is made or brought to this version if need be. Blocking.
    /// Errors: `Absent` with the reason; `Busy`.
    pub(super) fn open(&self) -> Result<Connection, OverlayError> {
        let until = Instant::now() + OPEN;
        loop {
            match self.try_open() {
                // Some locks are refused without SQLite's own patience, lest two wait for each other.
                Err(OverlayError::Busy) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Err(OverlayError::Failed(why)) => return Err(OverlayError::Absent(why)),
                opened => return opened,
            }
        }
    }

    fn try_open(&self) -> Result<Connection, OverlayError> {
        self.make().map_err(|error| OverlayError::Absent(format!("{}: {error}", self.path.display())))?;
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut conn = Connection::open_with_flags(&self.path, flags)?;
        conn.busy_timeout(BUSY)?;
        // Small: the file is a few pages, and a server has two connections for all its life.
        conn.execute_batch("PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;")?;
        let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(OverlayError::Absent(format!("{} cannot have a write-ahead log", self.path.display())));
        }
        conn.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;")?;
        self.migrate(&mut conn)?;
        Ok(conn)
    }

    /// Makes an empty file, 0600, unless it is there. Never opens one that is: closing it would take the locks away that another
    /// connection of this process has on it.
    fn make(&self) -> io::Result<()> {
        files::private_dir(&self.home)?;
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            match fs::symlink_metadata(&path) {
                Ok(meta) if !meta.is_file() => {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not a regular file")));
                }
                Ok(meta) => sys::tighten(Path::new(&path), &meta)?,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) if suffix.is_empty() => self.create()?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn create(&self) -> io::Result<()> {
        let temp = files::temp_path(&self.path)?;
        drop(files::open(&temp, files::Access::CreateNew)?);
        // A link, unlike a rename, fails when somebody else was first.
        let linked = fs::hard_link(&temp, &self.path);
        fs::remove_file(&temp)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => files::sync_dir(&self.home),
        }
    }

    fn migrate(&self, conn: &mut Connection) -> Result<(), OverlayError> {
        let newest = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
        let version = |conn: &Connection| conn.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        match version(conn)? {
            found if found == newest => return Ok(()),
            found if found > newest || found < 0 => {
                let text = format!("{} has format {found}, which is newer than this program", self.path.display());
                return Err(OverlayError::Absent(text));
            }
            _ => {}
        }
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        let taken = usize::try_from(version(&tx)?).unwrap_or(usize::MAX);
        for step in STEPS.iter().skip(taken) {
            tx.execute_batch(step)?;
        }
        if taken < STEPS.len() {
            tx.pragma_update(None, "user_version", newest)?;
        }
        tx.commit()?;
        Ok(())
    }
}

#[cfg(unix)]
mod sys {
    use std::{
        fs::{Metadata, Permissions, set_permissions},
        io,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    pub(super) type Identity = (u64, u64);

    pub(super) fn identity(meta: &Metadata) -> Identity {
        (meta.dev(), meta.ino())
    }

    pub(super) fn tighten(path: &Path, meta: &Metadata) -> io::Result<()> {
        if meta.mode() & 0o077 == 0 {
            return Ok(());
        }
        set_permissions(path, Permissions::from_mode(meta.mode() & 0o700))
    }
}

#[cfg(not(unix))]
mod sys {
    use std::{fs::Metadata, io, path::Path};

    // An open file cannot be replaced there, and access lists are inherited from the user's profile.
    pub(super) type Identity = ();

    pub(super) fn identity(_: &Metadata) -> Identity {}

    pub(super) fn tighten(_: &Path, _: &Metadata) -> io::Result<()> {
        Ok(())
    }
}
