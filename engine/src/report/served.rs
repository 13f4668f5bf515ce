//! What a server tells, an object a line.

use std::time::SystemTime;

use serde::Serialize;

use crate::record::ErrorReport;
use crate::units::rfc3339;

/// Something that happened to a server.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Served {
    /// It accepts connections.
    Listening {
        /// Address of the control port.
        address: String,
        /// Version of this program.
        version: String,
    },
    /// It sent a client away.
    Refused {
        /// The client's address.
        client: String,
        /// Why.
        error: ErrorReport,
    },
    /// A session began.
    SessionBegan {
        /// Its number, from 1.
        session: u64,
        /// The client's address.
        client: String,
        /// The client's version.
        version: String,
        /// UUID of the client's run.
        run: String,
    },
    /// A session ended.
    SessionEnded {
        /// Its number.
        session: u64,
        /// The client's address.
        client: String,
        /// UUID of the client's run.
        run: String,
        /// How long it lasted, seconds.
        lasted_s: f64,
        /// Why, where that was not the client's wish.
        error: Option<ErrorReport>,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    /// Instant, RFC 3339.
    at: String,
    #[serde(flatten)]
    served: &'a Served,
}

/// One line of JSON with the instant, and its line end.
pub fn line(served: &Served) -> String {
    let at = rfc3339(SystemTime::now());
    // Text keys only, written to memory: there is nothing that can fail.
    let mut text = serde_json::to_string(&Line { at, served }).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_a_line() {
        let error = ErrorReport {
            exit_code: 4,
            code: "busy".to_string(),
            text: "wait\nfor its end".to_string(),
        };
        let client = "10.0.0.1:5".to_string();
        let line = line(&Served::Refused { client, error });
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["type"], "refused");
        assert_eq!(value["error"]["code"], "busy");
        assert_eq!(value["at"].as_str().unwrap().len(), 24);
    }
}
