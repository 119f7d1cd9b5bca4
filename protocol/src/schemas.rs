//! Schemas of a wire's types, collected in two directions: what we read (params, bodies) and what we write (results, events).
//! Invariant: a document has one definition a name; a type that is read and written with different schemas is an error that
//! names it, never a guess. Every document's keys are sorted, so that a golden file does not depend on features.

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The dialect that all documents use.
pub const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// How a schema is made.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Whether a type is read from a client or written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Read: what may be left out is not required.
    Read,
    /// Written: what is always there is required.
    Written,
}

/// One member of an object schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its schema, without the description.
    pub schema: Value,
    /// Its doc text, if it has one.
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
}

/// A collector for one document.
#[derive(Debug)]
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    /// `at`: where the document keeps its definitions, `/components/schemas` or `/$defs`.
    pub fn new(at: &'static str) -> Self {
        let settings = || SchemaSettings::draft2020_12().with(|s| s.definitions_path = at.into());
        Self {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// Schema of what is read.
    pub fn input(&mut self, of: SchemaOf) -> Value {
        of(&mut self.read).to_value()
    }

    /// Schema of what is written.
    pub fn output(&mut self, of: SchemaOf) -> Value {
        of(&mut self.written).to_value()
    }

    /// Schema in `direction`.
    pub fn schema(&mut self, direction: Direction, of: SchemaOf) -> Value {
        match direction {
            Direction::Read => self.input(of),
            Direction::Written => self.output(of),
        }
    }

    /// The members of an object that is read: for parameters, which documents list one by one. The object itself does not
    /// become a definition.
    pub fn fields(&mut self, of: SchemaOf) -> Vec<Field> {
        let mut probe = SchemaGenerator::new(self.read.settings().clone());
        let mut schema = of(&mut probe).to_value();
        let mut definitions = probe.take_definitions(true);
        // What the members refer to is wanted, the object that they are in is not.
        if let Some(definition) = ref_name(&schema).and_then(|name| definitions.shift_remove(&name)) {
            schema = definition;
        }
        self.read.definitions_mut().extend(definitions);
        let required: Vec<String> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let members = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let field = |(name, mut schema): (String, Value)| {
            let description = schema.as_object_mut().and_then(|map| map.remove("description"));
            let description = description.and_then(|text| text.as_str().map(str::to_owned));
            let required = required.contains(&name);
            Field { name, schema, description, required }
        };
        members.into_iter().map(field).collect()
    }

    /// All definitions. Errors: the name of a type that the two directions disagree on.
    pub fn finish(mut self) -> Result<Map<String, Value>, String> {
        let mut all = self.read.take_definitions(true);
        for (name, written) in self.written.take_definitions(true) {
            match all.get(&name) {
                Some(read) if *read != written => {
                    return Err(format!("`{name}` is read and written with different schemas; give each its own type"));
                }
                Some(_) | None => {
                    all.insert(name, written);
                }
            }
        }
        Ok(all)
    }
}

/// A JSON Schema document with a definition for each of `types`, by the name given, and for all that they refer to.
/// Errors: as [`Schemas::finish`]; or a name that is given to something else too.
pub fn bundle(id: &str, title: &str, types: &[(String, Direction, SchemaOf)]) -> Result<Value, String> {
    let mut schemas = Schemas::new("/$defs");
    let named: Vec<(String, Value)> =
        types.iter().map(|(name, direction, of)| (name.clone(), schemas.schema(*direction, *of))).collect();
    let mut definitions = schemas.finish()?;
    for (name, schema) in named {
        let itself = ref_name(&schema).as_deref() == Some(name.as_str());
        if !itself && definitions.insert(name.clone(), schema).is_some() {
            return Err(format!("`{name}` names two schemas"));
        }
    }
    Ok(sorted(json!({ "$schema": DIALECT, "$id": id, "title": title, "$defs": definitions })))
}

/// The same value with the keys of every object in order.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(String, Value)> = map.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().map(|(name, member)| (name, sorted(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Every `$ref` of a document.
pub fn refs(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(map.values().flat_map(refs)).collect()
        }
        Value::Array(items) => items.iter().flat_map(refs).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The first `$ref` that points at nothing within the document.
pub fn dangling(document: &Value) -> Option<&str> {
    let lost = |at: &&str| at.strip_prefix('#').and_then(|pointer| document.pointer(pointer)).is_none();
    refs(document).into_iter().find(lost)
}

fn ref_name(schema: &Value) -> Option<String> {
    let at = schema.get("$ref")?.as_str()?;
    at.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Same {
        word: Word,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Word {
        Yes,
        No,
    }

    /// May be left out when read, is always there when written.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Differs {
        #[serde(default)]
        count: u32,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Params {
        /// How many.
        limit: Option<u32>,
        word: Word,
    }

    #[test]
    fn a_type_with_two_schemas_is_named() {
        let mut schemas = Schemas::new("/$defs");
        schemas.input(|g| g.subschema_for::<Same>());
        schemas.output(|g| g.subschema_for::<Same>());
        assert_eq!(schemas.finish().unwrap().keys().collect::<Vec<_>>(), ["Same", "Word"]);

        let mut schemas = Schemas::new("/$defs");
        schemas.input(|g| g.subschema_for::<Differs>());
        schemas.output(|g| g.subschema_for::<Differs>());
        assert!(schemas.finish().unwrap_err().starts_with("`Differs` is read and written"));
    }

    #[test]
    fn fields_are_listed_without_their_object() {
        let mut schemas = Schemas::new("/$defs");
        let fields = schemas.fields(|g| g.subschema_for::<Params>());
        let told: Vec<_> = fields.iter().map(|f| (f.name.as_str(), f.description.as_deref(), f.required)).collect();
        assert_eq!(told, [("limit", Some("How many."), false), ("word", None, true)]);
        assert_eq!(fields[1].schema, json!({"$ref": "#/$defs/Word"}));
        assert_eq!(schemas.finish().unwrap().keys().collect::<Vec<_>>(), ["Word"]);
    }

    #[test]
    fn a_bundle_is_sorted_and_whole() {
        let types: [(String, Direction, SchemaOf); 2] = [
            ("sum.params".into(), Direction::Read, |g| g.subschema_for::<Params>()),
            ("sum.result".into(), Direction::Written, |g| g.subschema_for::<Same>()),
        ];
        let document = bundle("urn:x", "X", &types).unwrap();
        assert_eq!(document["$defs"]["sum.result"], json!({"$ref": "#/$defs/Same"}));
        let names: Vec<&String> = document["$defs"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["Params", "Same", "Word", "sum.params", "sum.result"]);
        assert_eq!(dangling(&document), None);
        assert_eq!(dangling(&json!({"a": [{"$ref": "#/no/where"}]})), Some("#/no/where"));
    }
}
