//! macOS: the system's `sandbox-exec` with a profile that allows all but writes and, where it is asked for, the network.
//! Not tried by our own tests: they run on Linux.

use super::Confine;
use std::{
    ffi::OsString,
    path::Path,
    process::{Child, Command},
};

const PROGRAM: &str = "/usr/bin/sandbox-exec";

pub(super) fn available() -> Result<&'static str, &'static str> {
    if Path::new(PROGRAM).exists() { Ok("sandbox-exec") } else { Err("there is no /usr/bin/sandbox-exec") }
}

pub(super) fn spawn(
    confine: &Confine,
    program: &OsString,
    args: Vec<OsString>,
    set: impl FnOnce(&mut Command) + Send,
) -> Result<Child, String> {
    let mut command = Command::new(PROGRAM);
    command.arg("-p").arg(profile(confine)?).arg(program).args(args);
    set(&mut command);
    command.spawn().map_err(|err| format!("{PROGRAM} cannot be started: {err}"))
}

fn profile(confine: &Confine) -> Result<String, String> {
    let mut text = "(version 1)(allow default)(deny file-write*)(allow file-write* (subpath \"/dev\")".to_owned();
    for path in &confine.writable {
        // `/tmp` is a symlink here, and profiles know only where it leads.
        let Ok(real) = path.canonicalize() else { continue };
        let real = real.to_str().filter(|text| !text.contains(['"', '\\']));
        let real = real.ok_or("the sandbox cannot be set up: a writable path has a quote or is not text")?;
        text.push_str(&format!("(subpath \"{real}\")"));
    }
    text.push(')');
    if !confine.network {
        text.push_str("(deny network*)(allow network* (local unix-socket))(allow network* (remote unix-socket))");
    }
    Ok(text)
}
