//! The schema of the document and its reference, both made from the types.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::record::{Run, SCHEMA};

/// JSON Schema (2020-12) of the document, with a line end.
pub fn document() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Run>();
    schema.insert("title".to_string(), Value::from(SCHEMA));
    // A schema has text keys only and is written to memory: there is nothing that can fail.
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// What goes above the tables of the reference.
const INTRODUCTION: &str = include_str!("schema.md");

/// The reference in Markdown: every field with its type, unit and meaning.
pub fn reference() -> String {
    let schema: Value = serde_json::from_str(&document()).unwrap_or_default();
    let mut text = INTRODUCTION.to_string();
    section(&mut text, "Run", &schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        section(&mut text, name, definition);
    }
    text
}

fn section(text: &mut String, name: &str, schema: &Value) {
    let _ = write!(text, "\n## {name}\n");
    if let Some(meaning) = description(schema) {
        let _ = write!(text, "\n{meaning}\n");
    }
    let fields: Vec<(&String, &Value)> = properties(schema).collect();
    if !fields.is_empty() {
        text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    }
    for (field, schema) in fields {
        let meaning = description(schema).unwrap_or_default();
        let _ = writeln!(text, "| `{field}` | {} | {meaning} |", kind(schema));
    }
    let variants = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| schema.get(*key)?.as_array());
    let named = |variant: &&Value| variant.get("const").is_some() || has_kind(variant);
    let mut variants = variants.into_iter().flatten().filter(named).peekable();
    if variants.peek().is_some() {
        text.push_str("\n| value | meaning |\n|---|---|\n");
    }
    for variant in variants {
        let _ = writeln!(
            text,
            "| {} | {} |",
            value_of(variant),
            description(variant).unwrap_or_default()
        );
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn has_kind(variant: &Value) -> bool {
    variant.pointer("/properties/kind/const").is_some()
}

/// A variant's text, or its `kind` with its fields.
fn value_of(variant: &Value) -> String {
    if let Some(text) = variant.get("const").and_then(Value::as_str) {
        return format!("`{text}`");
    }
    let mut text = String::new();
    for (name, schema) in properties(variant) {
        let separator = if text.is_empty() { "" } else { ", " };
        match schema.get("const").and_then(Value::as_str) {
            Some(kind) => _ = write!(text, "{separator}`{name}`: `{kind}`"),
            None => _ = write!(text, "{separator}`{name}` ({})", kind(schema)),
        }
    }
    text
}

fn description(schema: &Value) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    Some(text.replace('\n', " ").replace('|', "\\|"))
}

/// A type in a word or two, with a link where it has a section of its own.
fn kind(schema: &Value) -> String {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or(target);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(of) = schema.get("anyOf").and_then(Value::as_array) {
        return of.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let format = schema.get("format").and_then(Value::as_str);
    let named = |name: &str| match (name, format) {
        ("array", _) => match (schema.get("items"), schema.get("prefixItems")) {
            (Some(items), _) => format!("array of {}", kind(items)),
            (None, Some(Value::Array(items))) => {
                format!(
                    "array: {}",
                    items.iter().map(kind).collect::<Vec<_>>().join(", ")
                )
            }
            (None, _) => "array".to_string(),
        },
        ("integer" | "number", Some(format)) => format.to_string(),
        (other, _) => other.to_string(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(named)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn is_fresh(name: &str, text: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../docs")
            .join(name);
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == text,
            "docs/{name} is not what the types give; refresh it with: \
             UPDATE_SCHEMA=1 cargo test -p ringperf schema"
        );
    }

    #[test]
    fn the_schema_file_is_fresh() {
        is_fresh("result.schema.json", &document());
    }

    #[test]
    fn the_reference_is_fresh() {
        is_fresh("result.md", &reference());
    }

    #[test]
    fn every_field_has_a_meaning() {
        let schema: Value = serde_json::from_str(&document()).unwrap();
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, definition) in definitions {
            assert!(description(definition).is_some(), "{name}");
            for (field, schema) in properties(definition) {
                let tuple = schema.get("prefixItems").is_some();
                assert!(description(schema).is_some() || tuple, "{name}.{field}");
            }
        }
        assert!(definitions.contains_key("Sample"));
        assert!(definitions.len() > 20);
    }

    /// Every key that a document has is a property of the schema, at its place.
    #[test]
    fn documents_have_no_field_that_the_schema_lacks() {
        let schema: Value = serde_json::from_str(&document()).unwrap();
        for run in crate::record::canned::runs() {
            let value = serde_json::to_value(&run).unwrap();
            covered(&schema, &schema, &value, "");
        }
    }

    fn covered(root: &Value, schema: &Value, value: &Value, at: &str) {
        let schema = match schema.get("$ref").and_then(Value::as_str) {
            Some(target) => root.pointer(&target[1..]).unwrap(),
            None => schema,
        };
        let alternatives = ["anyOf", "oneOf"]
            .iter()
            .find_map(|key| schema.get(*key)?.as_array());
        if let (Some(of), Value::Object(_), None) = (alternatives, value, schema.get("properties"))
        {
            if has_kind(&of[0]) {
                return;
            }
            return covered(root, &of[0], value, at);
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let at = format!("{at}/{name}");
                    let field = schema.get("properties").and_then(|all| all.get(name));
                    let other = schema.get("additionalProperties");
                    let Some(field) = field.or(other) else {
                        panic!("{at} is not in the schema")
                    };
                    covered(root, field, value, &at);
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(of) = schema.get("items") {
                        covered(root, of, item, at);
                    }
                }
            }
            _ => {}
        }
    }
}
