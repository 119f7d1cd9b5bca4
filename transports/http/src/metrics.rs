//! Figures of the process in the Prometheus text format, written by hand: the counters are plain atomics of the plane's and of
//! this server's, so a registry would add a crate and as many lines to read them into it, and would allocate a label set a
//! request. Invariant: counting takes no lock and allocates nothing; text is made only when somebody asks.

use http::StatusCode;
use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};
use triplane_core::stats::{BOUNDS_US, Durations, STOPS, Snapshot};
use triplane_protocol::{larik::Op, rest::Verb};

/// Statuses that this server answers with; another one is counted as the last.
const STATUSES: [u16; 21] =
    [200, 201, 202, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 426, 431, 499, 500, 501, 503, 0];

type Row = [AtomicU64; STATUSES.len()];

/// Requests that were answered, by route and status.
#[derive(Debug)]
pub(crate) struct Requests {
    /// One an operation, and one for paths and methods that are none.
    rows: Vec<Row>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { rows: (0..=Op::ALL.len()).map(|_| Row::default()).collect() }
    }
}

impl Requests {
    /// One more. An event stream counts when it opens.
    pub(crate) fn count(&self, op: Option<Op>, status: StatusCode) {
        let slot = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        let row = op.map_or(Op::ALL.len(), |op| op as usize);
        if let Some(count) = self.rows.get(row).and_then(|row| row.get(slot)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, out: &mut Text) {
        out.family("triplane_http_requests_total", "counter", "Requests answered over HTTP.");
        let names = Op::ALL.iter().map(|op| Some(op.row())).chain([None]);
        for (name, row) in names.zip(&self.rows) {
            let (verb, path) = name.map_or(("", "-"), |row| (Verb::as_str(row.verb), row.path));
            for (status, count) in STATUSES.iter().zip(row) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = format!(r#"method="{verb}",route="{path}",status="{status}""#);
                    out.sample("triplane_http_requests_total", &labels, count);
                }
            }
        }
    }
}

/// The whole text. `streams`: event streams that are open here.
pub(crate) fn text(version: &str, plane: &Snapshot, streams: usize, requests: &Requests) -> String {
    let mut out = Text(String::with_capacity(8 << 10));
    out.family("triplane_info", "gauge", "The server.");
    out.sample("triplane_info", &format!(r#"version="{}""#, version.replace(['"', '\\', '\n'], "_")), 1);
    let now = plane.now;
    for (name, help, value) in [
        ("triplane_sessions_loaded", "Live sessions.", now.live),
        ("triplane_sessions_busy", "Live sessions with a run in flight.", now.busy),
        ("triplane_permissions_pending", "Permission requests that wait for an answer.", now.pending),
        ("triplane_tasks_running", "Background tasks that run.", now.tasks),
        ("triplane_subscribers", "Readers of sessions' events, over all transports.", now.subscribers),
        ("triplane_http_streams", "Event streams that are open over HTTP.", streams as u64),
    ] {
        out.family(name, "gauge", help);
        out.sample(name, "", value);
    }
    out.family("triplane_runs_total", "counter", "Runs that ended, by their stopped reason.");
    for (stop, count) in STOPS.iter().zip(plane.runs) {
        let stop = serde_json::to_string(stop).unwrap_or_default();
        out.sample("triplane_runs_total", &format!("stopped_reason={stop}"), count);
    }
    for (name, help, value) in [
        ("triplane_events_total", "Events published.", plane.events),
        ("triplane_gaps_total", "Gaps that readers of events were told.", plane.gaps),
        ("triplane_events_lost_total", "Events that those readers will not get.", plane.lost),
    ] {
        out.family(name, "counter", help);
        out.sample(name, "", value);
    }
    let waits = "triplane_permission_wait_seconds";
    out.family(waits, "histogram", "How long permission requests waited for their outcome.");
    out.durations(waits, "", &plane.waits);
    let appends = "triplane_store_append_seconds";
    out.family(appends, "histogram", "Appends to transcripts; acknowledged ones are on disk before they are told.");
    out.durations(appends, r#"acknowledged="true""#, &plane.syncs);
    out.durations(appends, r#"acknowledged="false""#, &plane.writes);
    requests.write(&mut out);
    out.0
}

struct Text(String);

impl Text {
    // Writing to memory does not fail.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: u64) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn durations(&mut self, name: &str, labels: &str, durations: &Durations) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = BOUNDS_US.iter().map(|us| seconds(*us)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(durations.upto) {
            self.sample(&format!("{name}_bucket"), &format!(r#"{labels}{comma}le="{bound}""#), count);
        }
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{name}_sum{braces} {}", seconds(durations.sum_us));
        self.sample(&format!("{name}_count"), labels, durations.count());
    }
}

fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_core::stats::Now;

    #[test]
    fn the_text_is_what_a_scraper_reads() {
        let none = Durations { upto: [0; 11], sum_us: 0 };
        let syncs = Durations { upto: [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 3], sum_us: 2_005_000 };
        let now = Now { live: 3, busy: 1, pending: 2, tasks: 0, subscribers: 5 };
        let runs = [7, 0, 0, 0, 0, 1];
        let plane = Snapshot { now, runs, events: 90, gaps: 1, lost: 40, waits: none, writes: none, syncs };
        let requests = Requests::default();
        requests.count(Some(Op::Health), StatusCode::OK);
        requests.count(None, StatusCode::NOT_FOUND);
        requests.count(None, StatusCode::IM_A_TEAPOT);
        let text = text("1\"2", &plane, 4, &requests);
        for line in [
            r#"triplane_info{version="1_2"} 1"#,
            "triplane_sessions_busy 1",
            "triplane_http_streams 4",
            r#"triplane_runs_total{stopped_reason="completed"} 7"#,
            r#"triplane_store_append_seconds_bucket{acknowledged="true",le="0.0025"} 1"#,
            r#"triplane_store_append_seconds_bucket{acknowledged="true",le="+Inf"} 3"#,
            r#"triplane_store_append_seconds_sum{acknowledged="true"} 2.005"#,
            "triplane_permission_wait_seconds_sum 0",
            r#"triplane_http_requests_total{method="GET",route="/v1/health",status="200"} 1"#,
            r#"triplane_http_requests_total{method="",route="-",status="404"} 1"#,
            r#"triplane_http_requests_total{method="",route="-",status="0"} 1"#,
        ] {
            assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        let names: std::collections::HashSet<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(families, names.len(), "each family once");
        assert!(text.ends_with('\n'));
    }
}
