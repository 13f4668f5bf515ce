//! A side's report in bounded pieces, and put together again.

use super::frame::WireError;
use super::wire::Message;
use crate::record::SideReport;

/// Most bytes of a report's JSON.
pub const MAX_RESULTS: usize = 64 * 1024 * 1024;

/// Bytes of one piece. JSON's escapes make six bytes of one at worst, which still fits a frame.
const PIECE: usize = 32 * 1024;

/// The report as messages, in order. Fails where the report cannot be written as JSON.
pub fn split(report: &SideReport) -> Result<Vec<Message>, WireError> {
    let text =
        serde_json::to_string(report).map_err(|error| WireError::Malformed(error.to_string()))?;
    Ok(split_text(&text))
}

fn split_text(text: &str) -> Vec<Message> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(PIECE));
        let piece = pieces.len() as u32;
        let last = tail.is_empty();
        pieces.push(Message::Results {
            piece,
            last,
            text: head.to_string(),
        });
        if last {
            return pieces;
        }
        rest = tail;
    }
}

/// Pieces of one report as they arrive.
#[derive(Default, Debug)]
pub struct Assembly {
    text: String,
    next: u32,
}

impl Assembly {
    /// Takes one piece; the whole report with the last. Fails on a piece out of order and beyond
    /// [`MAX_RESULTS`].
    pub fn push(
        &mut self,
        piece: u32,
        last: bool,
        text: &str,
    ) -> Result<Option<SideReport>, WireError> {
        if piece != self.next {
            let text = format!("piece {piece} where {} was due", self.next);
            return Err(WireError::Pieces(text));
        }
        if self.text.len() + text.len() > MAX_RESULTS {
            return Err(WireError::Pieces(format!("more than {MAX_RESULTS} bytes")));
        }
        self.next += 1;
        self.text.push_str(text);
        if !last {
            return Ok(None);
        }
        let whole = std::mem::take(self);
        serde_json::from_str(&whole.text)
            .map(Some)
            .map_err(|error| WireError::Malformed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::encode;
    use super::*;
    use crate::record::{Finding, FlowReport, Severity};

    fn join(pieces: &[Message]) -> Result<Option<SideReport>, WireError> {
        let mut assembly = Assembly::default();
        let mut result = None;
        for message in pieces {
            let Message::Results { piece, last, text } = message else {
                panic!("{message:?}")
            };
            result = assembly.push(*piece, *last, text)?;
        }
        Ok(result)
    }

    proptest! {
        #[test]
        fn a_report_survives_its_pieces(texts in prop::collection::vec(".{0,4000}", 0..40)) {
            let findings = texts
                .iter()
                .map(|text| Finding::new(Severity::Info, "x", text.clone()))
                .collect();
            let report = SideReport { findings, ..SideReport::default() };
            let pieces = split(&report).unwrap();
            for piece in &pieces {
                prop_assert!(encode(piece).is_ok());
            }
            prop_assert_eq!(join(&pieces), Ok(Some(report)));
        }
    }

    #[test]
    fn pieces_out_of_order_or_without_end_are_errors() {
        let flows = vec![FlowReport::default(); 2000];
        let report = SideReport {
            flows,
            ..SideReport::default()
        };
        let mut pieces = split(&report).unwrap();
        assert!(pieces.len() > 2);
        pieces.swap(0, 1);
        assert!(matches!(join(&pieces), Err(WireError::Pieces(_))));

        let text = "x".repeat(1024 * 1024);
        let mut assembly = Assembly::default();
        let error = (0..).find_map(|piece| assembly.push(piece, false, &text).err());
        assert!(matches!(error, Some(WireError::Pieces(_))));
        assert!(assembly.text.len() <= MAX_RESULTS);
    }

    #[test]
    fn escapes_fit_a_frame() {
        let text = "\u{1}".repeat(PIECE * 2 + 1);
        for piece in split_text(&text) {
            assert!(encode(&piece).is_ok());
        }
    }
}
