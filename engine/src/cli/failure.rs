//! Usage and plan errors: text on stderr, and where JSON was asked for, a document.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use super::convert::target;
use crate::plan::JsonTarget;
use crate::record::exit;
use crate::record::run::Tool;
use crate::record::{ErrorReport, Run, SCHEMA};
use crate::report::json;
use crate::store::runfile;
use crate::units::rfc3339;

/// Letters of `run` that take no value, and may stand before `J` in one argument.
const SWITCHES: &str = "uRqv";

/// Where the document goes by the arguments as typed: clap's own errors leave nothing parsed.
pub(super) fn json_target(args: &[OsString]) -> Option<JsonTarget> {
    let mut args = args.iter().skip(1).map(|arg| arg.as_encoded_bytes());
    let mut stream = false;
    let mut found = None;
    while let Some(arg) = args.next() {
        match arg {
            b"--" => break,
            b"--json" => found = safer(found, after_json(args.next())),
            b"--json-stream" => stream = true,
            _ if arg.starts_with(b"--json=") => found = safer(found, after_json(Some(&arg[7..]))),
            [b'-', letters @ ..] if has_j(letters) => found = Some(JsonTarget::Stdout),
            _ => {}
        }
    }
    found.or_else(|| stream.then_some(JsonTarget::Stdout))
}

/// Of two targets, which is an error of its own, standard output is the safe one.
fn safer(found: Option<JsonTarget>, target: JsonTarget) -> Option<JsonTarget> {
    found
        .filter(|found| *found == JsonTarget::Stdout)
        .or(Some(target))
}

/// A value that is missing, or looks like the next flag, leaves standard output.
fn after_json(value: Option<&[u8]>) -> JsonTarget {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    match text {
        Some(path) if !path.is_empty() && !path.starts_with('-') => target(Path::new(path)),
        _ => JsonTarget::Stdout,
    }
}

fn has_j(letters: &[u8]) -> bool {
    let switches = |letter: &&u8| SWITCHES.as_bytes().contains(letter);
    letters.iter().find(|letter| !switches(letter)) == Some(&b'J')
}

/// The arguments as text.
pub(super) fn command(args: &[OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}

/// What keeps anything from running.
pub(super) struct Failure<'a> {
    pub(super) args: &'a [OsString],
    /// Stable identifier, kebab-case.
    pub(super) code: &'static str,
    pub(super) text: String,
}

impl Failure<'_> {
    /// Writes the text, and the document where one is wanted; gives the exit code.
    pub(super) fn report(self, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
        let text = self.text.trim_end();
        // Where stderr is gone there is nobody left to tell.
        let _ = writeln!(err, "{text}");
        let Some(target) = json_target(self.args) else {
            return exit::USAGE;
        };
        let written = match &target {
            JsonTarget::Stdout => out
                .write_all(json::render_line(&self.document(text)).as_bytes())
                .and_then(|()| out.flush())
                .map_err(|error| format!("the JSON document was not written: {error}")),
            JsonTarget::Path(path) => {
                runfile::save_as(path, &self.document(text)).map_err(|error| error.to_string())
            }
        };
        match written {
            Ok(()) => exit::USAGE,
            Err(error) => {
                let _ = writeln!(err, "error: {error}");
                exit::worst(&[exit::USAGE, exit::FAILED])
            }
        }
    }

    fn document(&self, text: &str) -> Run {
        let error = ErrorReport {
            exit_code: exit::USAGE,
            code: self.code.to_string(),
            text: text.to_string(),
        };
        Run {
            schema: SCHEMA.to_string(),
            uuid: uuid::Uuid::new_v4().to_string(),
            started: rfc3339(SystemTime::now()),
            tool: Tool {
                name: "ringperf".to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                command: command(self.args),
            },
            title: None,
            complete: false,
            client: None,
            server: None,
            cases: Vec::new(),
            findings: Vec::new(),
            error: Some(error),
        }
    }
}
