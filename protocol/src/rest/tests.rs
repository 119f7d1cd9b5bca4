//! A wire of a few rows, from text to answers.

use super::*;
use serde_json::json;

#[allow(unreachable_pub, dead_code, reason = "a wire is made to be exported, and one row here has no handler")]
mod sample {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// Names a thing.
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct ThingPath {
        /// The id.
        pub id: crate::SessionId,
    }

    /// Pages.
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Page {
        /// At most.
        pub limit: Option<u16>,
        /// Newest first.
        #[serde(default)]
        pub newest: bool,
    }

    /// Numbers to add.
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Add {
        /// The numbers.
        #[serde(default)]
        pub left: Vec<i64>,
    }

    crate::rest_wire! {
        /// Adds.
        call Sum: "sum" Post "/v1/things/{id}/sum" path(ThingPath) query(Page) body(Add) -> 201 i64 | 204 (),
            errors [NotFound], clauses ["T01"];
        /// Ticks.
        stream Ticks: "ticks" Get "/v1/things/{id}/events" path(ThingPath) -> 200 Add, errors [], clauses ["T02"];
        /// Says.
        text Say: "say" Get "/v1/say" -> 200 String, errors [], clauses [];
        /// Not there yet.
        public Never: "never" Get "/v1/never" -> 200 i64, errors [], clauses [], later;
    }
}
use sample::*;

struct Calculator;
impl Serve for Calculator {
    type Stream = String;
}
impl Handle<Sum> for Calculator {
    async fn handle(&self, input: Input<Sum>) -> Result<Either<i64, ()>, Failure> {
        let limit = usize::from(input.query.limit.unwrap_or(u16::MAX));
        let left: Vec<i64> = input.body.left.into_iter().take(limit).collect();
        Ok(if left.is_empty() { Either::Second(()) } else { Either::First(left.iter().sum()) })
    }
}
impl Handle<Say> for Calculator {
    async fn handle(&self, _: Input<Say>) -> Result<String, Failure> {
        Ok("said".into())
    }
}
impl Open<Ticks> for Calculator {
    async fn open(&self, input: Input<Ticks>) -> Result<String, Failure> {
        Ok(input.path.id.to_string())
    }
}

fn pairs<'a>(text: &'a str) -> Vec<Pair<'a>> {
    let pair = |part: &'a str| part.split_once('=').map(|(name, value)| (name.into(), value.into()));
    text.split('&').filter_map(pair).collect()
}

fn ask(op: Op, path: &str, query: &str, body: &[u8]) -> String {
    let raw = Raw { path: &pairs(path), query: &pairs(query), headers: &[], body };
    let mut future = std::pin::pin!(dispatch(&Calculator, op, &raw));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(out) = future.as_mut().poll(&mut context) else { panic!("nothing here waits") };
    match out {
        Ok(Dispatched::Answer(answer)) => format!("{} {}", answer.status, String::from_utf8(answer.body).unwrap()),
        Ok(Dispatched::Stream(stream)) => format!("stream {stream}"),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn rows_dispatch_decode_and_encode() {
    let sum = |query: &str, body: &str| ask(Op::Sum, "id=a", query, body.as_bytes());
    assert_eq!(sum("", r#"{"left":[1,2,4],"more":0}"#), "201 7");
    assert_eq!(sum("limit=2&other=x", r#"{"left":[1,2,4]}"#), "201 3");
    assert_eq!(sum("", ""), "204 ");
    assert_eq!(sum("", " \n"), "204 ");
    assert_eq!(sum("limit=-1", ""), "invalid_params: limit: must be a whole number in range");
    assert_eq!(sum("limit=1&limit=2", ""), "invalid_params: duplicate field `limit`");
    assert_eq!(sum("newest=yes", ""), "invalid_params: newest: must be true or false");
    assert_eq!(sum("", r#"{"left":[1,"x"]}"#), r#"invalid_params: left[1]: invalid type: string "x", expected i64"#);
    assert_eq!(sum("", "[1]"), "invalid_params: the body must be a JSON object");
    assert_eq!(sum("", r#"{"left":[],"left":[1]}"#), "invalid_params: the key `left` is given twice");
    assert!(sum("", r#"{"left":[1]"#).starts_with("invalid_params: EOF"), "cut short");
    assert!(
        sum("", r#"{"x":"\ud800"}"#).starts_with("invalid_params: "),
        "a lone surrogate, in a member that is ignored"
    );
    assert!(sum("", r#"{"left":[1]} {}"#).starts_with("invalid_params: trailing"), "text after the value");
    assert_eq!(
        ask(Op::Sum, "id=a", "", b"{\"left\":[1]\xff}"),
        "invalid_params: the body is not UTF-8; send JSON in UTF-8"
    );
    assert!(ask(Op::Sum, "id=..", "", b"").starts_with("not_found: id: a session id has"), "a bad id names nothing");
    assert_eq!(ask(Op::Ticks, "id=a", "", b""), "stream a");
    assert_eq!(ask(Op::Say, "", "", b""), "200 said");
    assert_eq!(ask(Op::Never, "", "", b""), "unsupported: `never` is not built yet");
}

#[test]
fn rows_index_by_operation() {
    for (index, op) in Op::ALL.iter().enumerate() {
        assert_eq!(*op as usize, index);
        assert_eq!(op.row().name, ROWS[index].name);
    }
    assert_eq!(ROWS.iter().map(|row| row.built).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(ROWS[0].success.iter().map(|success| success.status).collect::<Vec<_>>(), [201, 204]);
    assert!(ROWS[0].body.is_some() && ROWS[1].body.is_none());
    assert_eq!(json!(ROWS[2].doc), json!(" Says.\n"));
}
