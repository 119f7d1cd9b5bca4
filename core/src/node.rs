//! This machine's identity, minted once in `<home>/node.json`, also when two processes start at the same moment. Clause: S03.

use crate::{PlaneError, store::files};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

/// Who this machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// A UUID.
    pub id: String,
    /// For people: the host's name when it was minted.
    pub name: String,
}

impl Node {
    /// The identity of `home`, minted if there is none. Errors: `Invalid` for a file that is no identity; it is left alone.
    pub fn of(home: &Path) -> Result<Self, PlaneError> {
        files::private_dir(home).map_err(PlaneError::io("making the home directory"))?;
        let path = home.join("node.json");
        if let Some(node) = read(&path)? {
            return Ok(node);
        }
        let node = Self { id: crate::session::fresh_id(), name: host_name() };
        let text = serde_json::to_vec(&node).map_err(|error| PlaneError::Internal(error.to_string()))?;
        let temp = files::temp_path(&path).map_err(PlaneError::io("naming a temporary file"))?;
        files::write_atomic(&temp, &text).map_err(PlaneError::io("writing the node's identity"))?;
        // A link, unlike a rename, fails when somebody else was first.
        let linked = std::fs::hard_link(&temp, &path);
        std::fs::remove_file(&temp).map_err(PlaneError::io("removing a temporary file"))?;
        match linked {
            Ok(()) => Ok(node),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(&path)?
                .ok_or_else(|| PlaneError::Internal("the node's identity vanished while it was read".into())),
            Err(error) => Err(PlaneError::Io { doing: "minting the node's identity", source: error }),
        }
    }
}

fn read(path: &Path) -> Result<Option<Node>, PlaneError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PlaneError::Io { doing: "reading the node's identity", source: error }),
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| {
            PlaneError::Invalid(format!("{} is no node identity ({error}); mend or remove it", path.display()))
        }),
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "node".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_the_same_moment_agree() {
        let home = tempfile::tempdir().unwrap();
        let nodes: Vec<Node> = std::thread::scope(|scope| {
            let start = || Node::of(home.path()).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(nodes.iter().all(|node| *node == nodes[0]));
        let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["node.json"]);
    }
}
