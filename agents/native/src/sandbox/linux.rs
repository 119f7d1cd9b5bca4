//! Linux: Landlock keeps writes in, seccomp keeps sockets to this machine.
//! Both hold for a thread and all that it starts, so one thread is confined, starts the program, and ends. Nothing is done between
//! fork and exec. Landlock also shuts `/proc/PID/environ` of every process outside (it refuses to trace them); root would be let in
//! all the same for its capabilities, so a confined root has lost those.
//! Known limits: a rule cannot exclude a directory below a writable one; sockets that lie in the file system can be connected to.

use super::Confine;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::{
    io::Errno,
    thread::{CapabilitySet, remove_capability_from_bounding_set},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    process::{Child, Command},
};

/// The oldest that also stops truncation.
const NEEDED: ABI = ABI::V3;

/// Devices that any program may write to.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"];

pub(super) fn available() -> Result<&'static str, &'static str> {
    // Made and dropped: it restricts nothing.
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        .and_then(Ruleset::create);
    match made {
        Ok(_) if offline().is_ok() => Ok("landlock"),
        Ok(_) => Err("seccomp knows no filter for this processor"),
        Err(_) => Err("this kernel has no Landlock, or one that is too old (Linux 6.2 has what is needed)"),
    }
}

pub(super) fn spawn(
    confine: &Confine,
    program: &OsString,
    args: Vec<OsString>,
    set: impl FnOnce(&mut Command) + Send,
) -> Result<Child, String> {
    let started = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            restrict(confine).map_err(|why| format!("the sandbox cannot be set up, so nothing was started: {why}"))?;
            let mut command = Command::new(program);
            command.args(args);
            set(&mut command);
            command.spawn().map_err(|err| format!("{} cannot be started: {err}", program.display()))
        });
        thread.join()
    });
    started.unwrap_or_else(|_| Err("the sandbox cannot be set up: its thread broke".to_owned()))
}

/// What root could get out with. Whoever is not root has none of them to lose.
const POWERS: &[CapabilitySet] = &[
    CapabilitySet::SYS_PTRACE,
    CapabilitySet::PERFMON,
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::MKNOD,
    CapabilitySet::BPF,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
];

/// Confines this thread, for good.
fn restrict(confine: &Confine) -> Result<(), String> {
    let told = |err: &dyn std::fmt::Display| err.to_string();
    for power in POWERS {
        match remove_capability_from_bounding_set(*power) {
            // Refused: not root, or an old kernel that does not know it.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(err) => return Err(told(&err)),
        }
    }
    let all = AccessFs::from_all(NEEDED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .map_err(|err| told(&err))?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .map_err(|err| told(&err))?;
    if !confine.network {
        // A second bar where the kernel has it; the first is seccomp.
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp).map_err(|err| told(&err))?;
    }
    let status = ruleset
        .create()
        .and_then(|made| made.add_rules(path_beneath_rules(["/"], AccessFs::from_read(NEEDED))))
        .and_then(|made| made.add_rules(path_beneath_rules(DEVICES, AccessFs::from_read(NEEDED) | AccessFs::WriteFile)))
        .and_then(|made| made.add_rules(path_beneath_rules(&confine.writable, all)))
        .and_then(|made| made.restrict_self())
        .map_err(|err| told(&err))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("the kernel did not take it".to_owned());
    }
    if !confine.network {
        for filter in offline()? {
            seccompiler::apply_filter(&filter).map_err(|err| told(&err))?;
        }
    }
    Ok(())
}

/// Sockets only between processes of this machine; and no ring through which sockets could be made past the filter.
fn offline() -> Result<[BpfProgram; 2], String> {
    let told = |err: &dyn std::fmt::Display| err.to_string();
    let not = |family: libc::c_int| {
        let family = u64::try_from(family).unwrap_or(0);
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    let families = [libc::AF_UNIX, libc::AF_NETLINK].map(not).into_iter().collect::<Result<Vec<_>, _>>();
    let rule = families.and_then(SeccompRule::new).map_err(|err| told(&err))?;
    let errno = |code: libc::c_int| u32::try_from(code).map(SeccompAction::Errno).map_err(|err| told(&err));
    Ok([
        filter(libc::SYS_socket, vec![rule], errno(libc::EPERM)?)?,
        filter(libc::SYS_io_uring_setup, Vec::new(), errno(libc::ENOSYS)?)?,
    ])
}

fn filter(call: libc::c_long, rules: Vec<SeccompRule>, action: SeccompAction) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH.try_into().map_err(|err: seccompiler::BackendError| err.to_string())?;
    let filter = SeccompFilter::new(BTreeMap::from([(call, rules)]), SeccompAction::Allow, action, arch);
    filter.and_then(BpfProgram::try_from).map_err(|err| err.to_string())
}
