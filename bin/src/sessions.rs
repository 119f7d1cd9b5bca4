//! `triplane sessions`: stored sessions, read without taking them, moved between agents' stores, deleted.

use crate::{
    cli::{PlaneFlags, ServeFlags, SessionsArgs, SessionsCommand},
    exit::{CommandError, Exit},
    home, plain,
    prompt::json_line,
    settings::{Place, resolve},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use triplane_core::{
    Plane,
    plane::{Import, SessionDetail, SessionRow, Written},
};
use triplane_protocol::{Message, Part, Role, Session, ir::KnownPart};

/// Characters of a title in a list, and of a tool's arguments.
const SHORT_CHARS: usize = 72;

/// Runs the subcommand.
pub(crate) async fn run(args: SessionsArgs) -> Result<Exit, CommandError> {
    match args.command {
        SessionsCommand::List { json, limit, all, plane } => list(&open(plane)?, json, limit, all).await,
        SessionsCommand::Show { id, json, plane } => show(&open(plane)?, json, &id).await,
        SessionsCommand::Export { id, from, plane } => {
            let session = open(plane)?.export(&id, from.as_deref()).await?;
            json_line(&session).map_err(CommandError::io("printing"))?;
            Ok(Exit::Done)
        }
        SessionsCommand::Import { file, to, id, plane } => {
            let session = read(&file)?;
            written(open(plane)?.import(&to, session, Import { id, ..Import::default() }).await?)
        }
        SessionsCommand::Convert { id, to, from, plane } => {
            written(open(plane)?.convert(&id, &to, from.as_deref()).await?)
        }
        SessionsCommand::Delete { id, from, plane } => {
            open(plane)?.delete(&id, from.as_deref()).await?;
            Ok(Exit::Done)
        }
    }
}

fn open(flags: PlaneFlags) -> Result<Plane, CommandError> {
    home::open(&resolve(Place::here()?, flags, ServeFlags::default())?)
}

/// An exported session. Errors: it is none.
fn read(file: &Path) -> Result<Session, CommandError> {
    let text = match file.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => fs::read_to_string(file),
    };
    let text = text.map_err(CommandError::io(format!("reading {}", file.display())))?;
    let bad = |why: String| CommandError::Usage(format!("{}: is no exported session: {why}", file.display()));
    let session: Session = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    match session.version {
        1 => Ok(session),
        other => Err(bad(format!("version is {other}; this program reads 1"))),
    }
}

/// The id on stdout; what was lost is for people.
fn written(written: Written) -> Result<Exit, CommandError> {
    let Written { id, agent, lost } = written;
    writeln!(anstream::stdout(), "{id}").map_err(CommandError::io("printing"))?;
    for what in lost {
        writeln!(anstream::stderr(), "not in the store of {agent}: {what}").map_err(CommandError::io("printing"))?;
    }
    Ok(Exit::Done)
}

async fn list(plane: &Plane, json: bool, limit: Option<usize>, all: bool) -> Result<Exit, CommandError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut stdout = anstream::stdout();
    let rows = match all {
        true => plane.rows(false).await?.into_iter().map(|row| row.row).take(limit.unwrap_or(usize::MAX)).collect(),
        false => plane.list(limit, None).await?.rows,
    };
    for row in rows {
        let printed = if json {
            json_line(&row_json(&row))
        } else {
            writeln!(
                stdout,
                "{}",
                if all { format!("{:<10}{}", row.agent, row_text(&row, now)) } else { row_text(&row, now) }
            )
        };
        printed.map_err(CommandError::io("printing"))?;
    }
    Ok(Exit::Done)
}

async fn show(plane: &Plane, json: bool, id: &str) -> Result<Exit, CommandError> {
    let id = plane.resolve(id).await?;
    let detail = plane.get(&id).await?;
    let messages = plane.messages(&id).await?;
    if json {
        let mut whole = row_json(&detail.row);
        if let Value::Object(members) = &mut whole {
            members.extend(detail_json(&detail));
            members.insert("messages".into(), json!(messages));
        }
        json_line(&whole).map_err(CommandError::io("printing"))?;
        return Ok(Exit::Done);
    }
    let mut text = format!("session {}\n", detail.row.id);
    let facts = [
        ("title", detail.row.title.clone()),
        ("agent", Some(detail.row.agent.clone())),
        ("model", detail.row.model.clone()),
        ("mode", Some(detail.mode.to_string())),
        ("directory", Some(detail.row.cwd.clone())),
        ("transcript", Some(detail.path.display().to_string())),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            text.push_str(&format!("  {name}: {}\n", plain::line(&value)));
        }
    }
    for message in &messages {
        text.push_str(&message_text(message));
    }
    write!(anstream::stdout(), "{text}").map_err(CommandError::io("printing"))?;
    Ok(Exit::Done)
}

fn row_json(row: &SessionRow) -> Value {
    let SessionRow { id, agent, title, cwd, model, created, updated, live, busy, pending } = row;
    json!({
        "id": id, "agent": agent, "title": title, "cwd": cwd, "model": model, "created": created, "updated": updated,
        "live": live, "busy": busy, "pending": pending,
    })
}

fn detail_json(detail: &SessionDetail) -> [(String, Value); 6] {
    [
        ("mode".to_owned(), json!(detail.mode)),
        ("effort".to_owned(), json!(detail.effort)),
        ("usage".to_owned(), json!(detail.usage)),
        ("seq".to_owned(), json!(detail.seq)),
        ("epoch".to_owned(), json!(detail.epoch)),
        ("path".to_owned(), json!(detail.path)),
    ]
}

fn row_text(row: &SessionRow, now: Duration) -> String {
    let written = Duration::from_millis(u64::try_from(row.updated).unwrap_or_default());
    let title = row.title.as_deref().unwrap_or(if row.pending { "(empty)" } else { "" });
    let text = format!("{:<36}  {:>8}  {}", row.id, age(now.saturating_sub(written)), plain::short(title, SHORT_CHARS));
    text.trim_end().to_owned()
}

/// How long ago, in the largest unit that fits.
fn age(since: Duration) -> String {
    let seconds = since.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| "now".to_owned(), |(length, name)| format!("{} {name}", seconds / length))
}

fn message_text(message: &Message) -> String {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    };
    let mut text = format!("\n{who}:\n");
    for part in &message.parts {
        for line in part_text(part).lines() {
            text.push_str(&format!("  {}\n", plain::line(line)));
        }
    }
    text
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Known(KnownPart::Text { text, .. } | KnownPart::Thinking { text, .. }) => text.clone(),
        Part::Known(KnownPart::Call { name, input, .. }) => {
            format!("● {name} {}", plain::short(&input.to_string(), SHORT_CHARS))
        }
        Part::Known(KnownPart::Result { output, error, .. }) => {
            let text: Vec<String> = output.iter().map(part_text).collect();
            format!("{}{}", if *error { "failed: " } else { "" }, text.join("\n"))
        }
        Part::Known(KnownPart::Image { mime, .. }) => format!("(image, {mime})"),
        Part::Known(KnownPart::File { path, uri, .. }) => {
            format!("(file {})", path.as_deref().or(uri.as_deref()).unwrap_or("inline"))
        }
        Part::Known(KnownPart::Boundary { summary, .. }) => match summary {
            Some(summary) => format!("(history summarised)\n{summary}"),
            None => "(history cleared)".to_owned(),
        },
        Part::Other(_) => "(a part of a kind that this version does not know)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::{MessageId, SessionId};

    #[test]
    fn a_row_is_one_safe_line() {
        let row = SessionRow {
            id: SessionId::parse("s1").unwrap(),
            agent: "native".into(),
            title: Some("a\nb\u{1b}[31m".into()),
            cwd: "/".into(),
            model: None,
            created: 0,
            updated: 0,
            live: false,
            busy: false,
            pending: false,
        };
        let text = row_text(&row, Duration::from_secs(7300));
        assert!(text.ends_with("     2 h  a\\nb\\u{1b}[31m"), "{text}");
    }

    #[test]
    fn ages_are_told_in_the_largest_unit() {
        for (seconds, text) in [(0, "now"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (200_000, "2 d")] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn messages_show_calls_and_their_results() {
        let call = Part::call("c".into(), "read", json!({"path": "x"}));
        let result = Part::result("c".into(), vec![Part::text("gone\u{7}")], true);
        let message = Message::of(MessageId::from("m"), Role::Tool, vec![call, result], 0);
        assert_eq!(message_text(&message), "\ntool:\n  ● read {\"path\":\"x\"}\n  failed: gone\\u{7}\n");
    }
}
