//! The specification's own exchanges (§7) and the faults seen in the field (JR), as tables.

use super::*;
use serde_json::{Value, json};

/// What a message becomes, told in one line an item: `method id params`, `reply`, or `ignored`.
fn read(text: &str) -> Vec<String> {
    let show = |item: &Item<'_>| match item {
        Item::Request(Request { id, method, params }) => {
            let id = id.as_ref().map_or("-", Id::raw);
            format!("{method} {id} {}", params.unwrap_or("-"))
        }
        Item::Invalid(reply) => {
            let reply: Value = serde_json::from_slice(reply).unwrap();
            assert_eq!(reply["jsonrpc"], "2.0");
            assert!(!reply["error"]["message"].as_str().unwrap().is_empty());
            format!("{} {} {}", reply["error"]["code"], reply["error"]["data"]["code"].as_str().unwrap(), reply["id"])
        }
        Item::Ignored => "ignored".into(),
    };
    match parse(text) {
        Incoming::Single(item) => vec![show(&item)],
        Incoming::Batch(items) => {
            let mut lines: Vec<String> = items.iter().map(show).collect();
            lines.insert(0, "batch".into());
            lines
        }
    }
}

#[test]
fn every_exchange_of_the_specification() {
    let table: &[(&str, &[&str])] = &[
        (r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#, &["subtract 1 [42, 23]"]),
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42}, "id": 3}"#,
            &[r#"subtract 3 {"minuend": 42}"#],
        ),
        (r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2]}"#, &["update - [1,2]"]),
        (r#"{"jsonrpc": "2.0", "method": "foobar"}"#, &["foobar - -"]),
        (r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#, &["-32700 invalid null"]),
        (r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#, &["-32600 invalid null"]),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": "1"},{"jsonrpc": "2.0", "method"]"#,
            &["-32700 invalid null"],
        ),
        ("[]", &["-32600 invalid null"]),
        ("[1]", &["batch", "-32600 invalid null"]),
        ("[1,2,3]", &["batch", "-32600 invalid null", "-32600 invalid null", "-32600 invalid null"]),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
                {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
                {"foo": "boo"},
                {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]"#,
            &["batch", r#"sum "1" [1,2,4]"#, "notify_hello - [7]", "-32600 invalid null", r#"get_data "9" -"#],
        ),
        (r#"[{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "method": "b"}]"#, &["batch", "a - -", "b - -"]),
    ];
    for (text, expected) in table {
        assert_eq!(read(text), *expected, "{text}");
    }
}

#[test]
fn every_fault_of_the_field() {
    let deep =
        |n: usize| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#, "[".repeat(n), "]".repeat(n));
    let table: &[(&str, &str)] = &[
        // JR-01
        ("1", "-32600 invalid null"),
        ("\"x\"", "-32600 invalid null"),
        ("null", "-32600 invalid null"),
        (r#"{"foo":"boo"}"#, "-32600 invalid null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"bar"}"#, r#"m 1 "bar""#),
        // JR-03
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "m null -"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "-32600 invalid null"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "-32600 invalid null"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "-32600 invalid null"),
        // JR-04
        (r#"{"id":1,"method":"m"}"#, "-32600 invalid 1"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "-32600 invalid 1"),
        (r#"{"jsonrpc":2.0,"id":"a","method":"m"}"#, "-32600 invalid \"a\""),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","foo":1}"#, "m 1 -"),
        (r#"{"jsonrpc":"2\u002e0","id":1,"method":"\u006d"}"#, "m 1 -"),
        // JR-06
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#, "m 1 null"),
        // JR-07
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}"#, "-32602 invalid_params 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":[{"a":1,"a":2}]}}"#, "-32602 invalid_params 1"),
        (r#"{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#, "-32600 invalid 1"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "-32600 invalid null"),
        // JR-08: the envelope is a level too
        (&deep(126), &format!("m 1 {}{}", "[".repeat(126), "]".repeat(126))),
        (&deep(127), "-32700 invalid null"),
        (&deep(100_000), "-32700 invalid null"),
        // JR-09
        (r#"{"jsonrpc":"2.0","id":-0,"method":"m"}"#, "m -0 -"),
        (r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#, "m 1e2 -"),
        (r#"{"jsonrpc":"2.0","id":1.50,"method":"m"}"#, "m 1.50 -"),
        (r#"{"jsonrpc":"2.0","id":18446744073709551617,"method":"m"}"#, "m 18446744073709551617 -"),
        (r#"{"jsonrpc":"2.0","id":"\u0041é","method":"m"}"#, r#"m "\u0041é" -"#),
        (r#"{"jsonrpc":"2.0","id":1e400,"method":"m"}"#, "-32700 invalid null"),
        (&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"m"}}"#, "9".repeat(400)), "-32700 invalid null"),
        // JR-13
        (r#"{"jsonrpc":"2.0","id":5,"result":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"x"}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","result":{}}"#, "-32600 invalid 5"),
        // WF-12, C15
        ("{}\n{}", "-32700 invalid null"),
        ("", "-32700 invalid null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"text":"\ud800"}}"#, "-32700 invalid null"),
    ];
    for (text, expected) in table {
        assert_eq!(read(text), [*expected], "{}", echo(text));
    }
}

#[test]
fn a_batch_is_judged_item_by_item_and_has_a_limit() {
    let twice = r#"{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":1,"a":2}}"#;
    let good = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    assert_eq!(read(&format!(" [{good},{twice}]")), ["batch", "m 1 -", "-32602 invalid_params 2"]);

    let full = vec![good; BATCH_ITEMS].join(",");
    assert_eq!(read(&format!("[{full}]")).len(), 1 + BATCH_ITEMS);
    assert_eq!(read(&format!("[{full},{good}]")), ["-32600 too_large null"]);
    assert_eq!(read(&format!("[{full},{good},{{]")), ["-32700 invalid null"]);
}

#[test]
fn replies_are_written_as_the_specification_shows() {
    let id = Id::from_raw("\"a\"").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(text(result(&id, "19")), r#"{"jsonrpc":"2.0","id":"a","result":19}"#);
    assert_eq!(
        text(error(Some(&id), &Failure::new(ErrorCode::Locked, "held").because("node b"), None)),
        r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"held","data":{"code":"locked","cause":"node b"}}}"#
    );
    assert_eq!(
        text(error(None, &Failure::new(ErrorCode::Internal, "x"), None)),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"x","data":{"code":"internal"}}}"#
    );
    assert_eq!(text(notification("event", "{}")), r#"{"jsonrpc":"2.0","method":"event","params":{}}"#);

    let reply: Value =
        serde_json::from_slice(&method_not_found(&Id::null(), &format!("a\0{}", "x".repeat(99)))).unwrap();
    let cut = format!("no method `a\\u{{0}}{}…`", "x".repeat(58));
    assert_eq!(reply["error"], json!({"code": -32601, "message": cut, "data": {"code": "unsupported"}}));
}
