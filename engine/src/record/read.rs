//! Reading a document, whichever version wrote it.
//!
//! Fields that a later tool of the same schema added are null or zero in an older document; a
//! change that is more than an addition gets a new schema version and a branch in [`read`].

use serde::Deserialize;

use super::{Run, SCHEMA};

/// Why a document could not be read.
#[derive(thiserror::Error, Debug)]
pub enum ReadError {
    /// Not JSON, or a field has the wrong type or is missing.
    #[error("not a ringperf result: {0}")]
    Json(#[from] serde_json::Error),
    /// No `schema` field at all.
    #[error("not a ringperf result: it has no \"schema\" (this version reads {SCHEMA})")]
    NoSchema,
    /// A schema that this version does not know.
    #[error(
        "the result has the schema {0:?}, this version of ringperf reads {SCHEMA:?}: \
         read it with the version that wrote it, or a later one"
    )]
    Schema(String),
    /// A sample without the figures that its schema promises.
    #[error("damaged result: {0}")]
    Damaged(String),
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// Reads a document of any schema version that this tool knows.
///
/// # Errors
///
/// When the text is no such document, or of an unknown version (both are named).
pub fn read(text: &str) -> Result<Run, ReadError> {
    let head: Head = serde_json::from_str(text)?;
    match head.schema.as_deref() {
        Some(SCHEMA) => {}
        Some(other) => return Err(ReadError::Schema(other.to_string())),
        None => return Err(ReadError::NoSchema),
    }
    let run: Run = serde_json::from_str(text)?;
    check(&run)?;
    Ok(run)
}

/// A flattened optional struct swallows its own errors: a sample whose figures are damaged would
/// read as one without figures. This finds it.
fn check(run: &Run) -> Result<(), ReadError> {
    for case in &run.cases {
        for sample in &case.samples {
            let expected = match sample.groups.as_slice() {
                [only] => Some(&only.figures),
                _ => None,
            };
            if sample.figures.as_ref() != expected {
                let (name, number) = (&case.case.name, sample.number);
                return Err(ReadError::Damaged(format!(
                    "sample {number} of {name:?}: its own figures are not its only group's"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::canned;

    fn text(run: &Run) -> String {
        serde_json::to_string(run).unwrap()
    }

    #[test]
    fn canned_runs_round_trip() {
        for run in canned::runs() {
            assert_eq!(read(&text(&run)).unwrap(), run);
        }
    }

    #[test]
    fn an_unknown_schema_names_both() {
        let mut run = canned::tour();
        run.schema = "ringperf.result/99".to_string();
        let error = read(&text(&run)).unwrap_err().to_string();
        assert!(error.contains("ringperf.result/99"), "{error}");
        assert!(error.contains(SCHEMA), "{error}");
    }

    #[test]
    fn other_documents_are_refused() {
        assert!(matches!(read("{}"), Err(ReadError::NoSchema)));
        assert!(matches!(read("ringperf"), Err(ReadError::Json(_))));
        assert!(matches!(
            read("{\"schema\":\"ringperf.result/1\"}"),
            Err(ReadError::Json(_))
        ));
    }

    #[test]
    fn damaged_figures_are_not_silently_none() {
        let text = text(&canned::tour());
        let at = text.rfind("\"throughput_bps\"").unwrap();
        let damaged = format!("{}\"gone\"{}", &text[..at], &text[at + 16..]);
        assert!(matches!(read(&damaged), Err(ReadError::Damaged(_))));
    }

    #[test]
    fn fields_added_later_may_be_missing() {
        let run = canned::tour();
        let mut value = serde_json::to_value(&run).unwrap();
        let sample = &mut value["cases"][0]["samples"][0];
        let figures = sample.pointer_mut("/groups/0").unwrap();
        figures.as_object_mut().unwrap().remove("sent_bps").unwrap();
        sample.as_object_mut().unwrap().remove("sent_bps").unwrap();
        let old = read(&value.to_string()).unwrap();
        assert_eq!(
            old.cases[0].samples[0].figures.as_ref().unwrap().sent_bps,
            0.0
        );
    }

    proptest! {
        #[test]
        fn every_figure_round_trips(
            counts in prop::array::uniform8(any::<u64>()),
            rates in prop::array::uniform6(any::<f64>().prop_filter("finite", |x| x.is_finite())),
            lost in any::<Option<u64>>(),
            words in prop::array::uniform3(".*"),
            two in any::<bool>(),
        ) {
            let mut run = canned::tour();
            run.title = Some(words[0].clone());
            let sample = &mut run.cases[0].samples[0];
            let figures = &mut sample.groups[0].figures;
            figures.sent.bytes = counts[0];
            figures.sent.messages = Some(counts[1]);
            figures.received.messages = lost;
            figures.throughput_bps = rates[0];
            figures.sent_bps = rates[1];
            figures.fairness = Some(rates[2]);
            figures.flow_spread = lost.map(|_| (rates[3], rates[4]));
            figures.reconciliation.lost = lost;
            figures.reconciliation.reason = Some(words[1].clone());
            let udp = crate::record::UdpReport {
                lost,
                jitter_ns: Some(rates[5]),
                mode: words[2].clone(),
                late: Some(counts[2]),
                ..Default::default()
            };
            figures.udp = two.then_some(udp);
            sample.intervals.client[0].index = counts[3];
            sample.intervals.client[0].counters.received_bytes = counts[4];
            sample.figures = Some(sample.groups[0].figures.clone());
            if two {
                sample.groups.push(sample.groups[0].clone());
                sample.figures = None;
            }
            let first = text(&run);
            let back = read(&first).unwrap();
            prop_assert_eq!(&back, &run);
            prop_assert_eq!(text(&back), first);
        }
    }
}
