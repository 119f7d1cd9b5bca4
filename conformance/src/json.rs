//! Reading members of an answer, so that a missing or mistyped one is the server's fault and says where.

use crate::verdict::{Outcome, Stop, shorten};
use serde_json::Value;

/// Members of a JSON value by JSON pointer; each that is absent or of another type ends the case.
pub trait Json {
    /// The value at `pointer`.
    fn at(&self, pointer: &str) -> Outcome<&Value>;
    /// A string.
    fn text(&self, pointer: &str) -> Outcome<String>;
    /// A whole number.
    fn int(&self, pointer: &str) -> Outcome<i64>;
    /// A truth value.
    fn flag(&self, pointer: &str) -> Outcome<bool>;
    /// A list.
    fn list(&self, pointer: &str) -> Outcome<&Vec<Value>>;
}

impl Json for Value {
    fn at(&self, pointer: &str) -> Outcome<&Value> {
        self.pointer(pointer).ok_or_else(|| wrong(self, pointer, "is missing"))
    }

    fn text(&self, pointer: &str) -> Outcome<String> {
        self.at(pointer)?.as_str().map(str::to_owned).ok_or_else(|| wrong(self, pointer, "is no string"))
    }

    fn int(&self, pointer: &str) -> Outcome<i64> {
        self.at(pointer)?.as_i64().ok_or_else(|| wrong(self, pointer, "is no whole number"))
    }

    fn flag(&self, pointer: &str) -> Outcome<bool> {
        self.at(pointer)?.as_bool().ok_or_else(|| wrong(self, pointer, "is no boolean"))
    }

    fn list(&self, pointer: &str) -> Outcome<&Vec<Value>> {
        self.at(pointer)?.as_array().ok_or_else(|| wrong(self, pointer, "is no array"))
    }
}

fn wrong(value: &Value, pointer: &str, what: &str) -> Stop {
    Stop::broke(format!("`{pointer}` {what} in {}", shorten(&value.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_or_mistyped_member_is_the_servers_fault() {
        let value = json!({"a": {"b": [1, "x", true]}});
        assert_eq!(value.int("/a/b/0"), Ok(1));
        assert_eq!(value.text("/a/b/1"), Ok("x".to_owned()));
        assert_eq!(value.flag("/a/b/2"), Ok(true));
        assert_eq!(value.text("/a/c"), Err(Stop::broke(r#"`/a/c` is missing in {"a":{"b":[1,"x",true]}}"#)));
        assert_eq!(value.int("/a/b/1"), Err(Stop::broke(r#"`/a/b/1` is no whole number in {"a":{"b":[1,"x",true]}}"#)));
    }
}
