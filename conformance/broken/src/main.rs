//! `broken NAME WIRE PROGRAM serve …`: the program's `serve`, with one thing broken on one wire. `none` breaks nothing.

use triplane_conformance::Wire;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().ok_or_else(|| anyhow::anyhow!("{what} is missing"));
    let (name, wire, program) = (next("the break's name")?, next("the wire")?, next("the program")?);
    let wire = Wire::ALL.iter().copied().find(|known| known.flag() == wire);
    let wire = wire.ok_or_else(|| anyhow::anyhow!("no such wire"))?;
    let code = triplane_broken::proxy::run(&name, wire, program.into(), args.collect()).await?;
    // Not by returning: a read of stdin that never ends would hold the runtime.
    std::process::exit(code)
}
