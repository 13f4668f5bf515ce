//! The live line: one interval, while a sample runs.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::number::{bits, figure};
use crate::plan::{Case, Direction, Traffic};
use crate::record::{Interval, Progress};

/// Where a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Number of the case, from 1, and how many there are.
    pub case: (usize, usize),
    /// Number of the sample, from 1, and how many each case has.
    pub sample: (u32, u32),
}

impl Position {
    /// `case 2/4, sample 1/3, `: what there is only one of is left out.
    fn text(&self) -> String {
        let mut text = String::new();
        if self.case.1 > 1 {
            text.push_str(&format!("case {}/{}, ", self.case.0, self.case.1));
        }
        if self.sample.1 > 1 {
            text.push_str(&format!("sample {}/{}, ", self.sample.0, self.sample.1));
        }
        text
    }
}

/// A line before anything of a sample is known.
pub fn opening(case: &Case, position: Position) -> String {
    format!("[begins] {}{}", position.text(), case.name)
}

/// One line about one interval: `[  3.0s] tcp stream 128K x1: 21.3 Gbit/s recv, 21.4 sent`. Each
/// side's numbers are of its own clock's interval; what has not arrived is left out. Empty where
/// nothing has.
pub fn text(
    case: &Case,
    position: Position,
    client: Option<&Progress>,
    server: Option<&Progress>,
) -> String {
    let Some(any) = client.or(server) else {
        return String::new();
    };
    let groups: Vec<String> = (0..case.groups.len())
        .map(|index| {
            let of = |side: Option<&Progress>| side.and_then(|p| p.groups.get(index).copied());
            group(case, index, of(client), of(server))
        })
        .collect();
    let at = match any.groups.first() {
        _ if any.index < 0 => "warm-up".to_string(),
        Some(interval) => format!("{:5.1}s", interval.start_s + interval.length_s),
        None => format!("#{}", any.index),
    };
    let (at_case, name) = (position.text(), &case.name);
    format!("[{at}] {at_case}{name}: {}", groups.join(" | "))
}

fn group(case: &Case, index: usize, client: Option<Interval>, server: Option<Interval>) -> String {
    let plan = case.groups[index];
    let (from, to) = match plan.direction {
        Direction::ClientToServer => (client, server),
        Direction::ServerToClient => (server, client),
    };
    if plan.traffic != Traffic::Stream {
        let rate = from.map(|interval| per_second(&interval, interval.completed));
        return match rate {
            Some(rate) => format!("{} transactions/s", figure(rate)),
            None => "no news of the asking side".to_string(),
        };
    }
    let rate = |interval: Option<Interval>, bytes: fn(&Interval) -> u64| {
        interval.map(|i| bits(per_second(&i, bytes(&i)) * 8.0))
    };
    let received = rate(to, |i| i.counters.received_bytes);
    let sent = rate(from, |i| i.counters.sent_bytes);
    match (received, sent) {
        (Some(received), Some(sent)) => format!("{received} received, {sent} sent"),
        (Some(received), None) => format!("{received} received"),
        (None, Some(sent)) => format!("{sent} sent"),
        (None, None) => "no news".to_string(),
    }
}

fn per_second(interval: &Interval, count: u64) -> f64 {
    if interval.length_s > 0.0 {
        count as f64 / interval.length_s
    } else {
        0.0
    }
}

/// An interval in the stream of objects.
#[derive(Serialize)]
struct Object<'a> {
    /// Tells intervals from the document that ends the stream, which has none.
    #[serde(rename = "type")]
    kind: &'static str,
    case: &'a str,
    case_number: usize,
    cases: usize,
    sample: u32,
    samples: u32,
    side: &'a str,
    #[serde(flatten)]
    progress: &'a Progress,
}

/// One side's interval as one line of JSON, with a line end.
pub fn object(case: &Case, position: Position, side: &str, progress: &Progress) -> String {
    let object = Object {
        kind: "interval",
        case: &case.name,
        case_number: position.case.0,
        cases: position.case.1,
        sample: position.sample.0,
        samples: position.sample.1,
        side,
        progress,
    };
    // Text keys only, written to memory: there is nothing that can fail.
    let mut text = serde_json::to_string(&object).unwrap_or_default();
    text.push('\n');
    text
}

/// Where live lines go: rewritten in place on a terminal, one after the other in a pipe, nowhere
/// when quiet.
pub struct LiveLine {
    place: Place,
}

enum Place {
    Quiet,
    Terminal(ProgressBar),
    Pipe(Box<dyn Write + Send>),
}

impl LiveLine {
    /// `out` is where lines go that are not rewritten; `is_terminal` says that stderr is one.
    pub fn new(quiet: bool, is_terminal: bool, out: Box<dyn Write + Send>) -> LiveLine {
        let place = match (quiet, is_terminal) {
            (true, _) => Place::Quiet,
            (false, true) => Place::Terminal(bar()),
            (false, false) => Place::Pipe(out),
        };
        LiveLine { place }
    }

    /// Shows a line without its line end.
    ///
    /// # Errors
    ///
    /// When the pipe cannot be written.
    pub fn show(&mut self, text: &str) -> io::Result<()> {
        match &mut self.place {
            Place::Quiet => Ok(()),
            Place::Terminal(bar) => {
                bar.set_message(text.to_string());
                Ok(())
            }
            Place::Pipe(out) => {
                writeln!(out, "{text}")?;
                out.flush()
            }
        }
    }

    /// Shows a line on a terminal only: it tells of nothing that a log needs.
    pub fn show_on_terminal(&mut self, text: &str) {
        if let Place::Terminal(bar) = &self.place {
            bar.set_message(text.to_string());
        }
    }

    /// Takes the line off a terminal, so that what follows starts on an empty one.
    pub fn clear(&mut self) {
        if let Place::Terminal(bar) = &self.place {
            bar.finish_and_clear();
            self.place = Place::Terminal(self::bar());
        }
    }
}

/// No thread redraws it: a line is drawn when it is shown, so that the host under test is left
/// alone in between.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.with_style(
        ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::record::{Counters, canned};

    fn progress(index: i64, sent: u64, received: u64) -> Progress {
        let counters = Counters {
            sent_bytes: sent,
            received_bytes: received,
            ..Counters::default()
        };
        let interval = Interval {
            start_s: index as f64,
            length_s: 1.0,
            counters,
            completed: 45_210,
            ..Interval::default()
        };
        Progress {
            index,
            groups: vec![interval; 2],
            ..Progress::default()
        }
    }

    const ONLY: Position = Position {
        case: (1, 1),
        sample: (1, 1),
    };

    #[test]
    fn a_line_says_where_the_run_is() {
        let case = &canned::tour().cases[0].case;
        let at = |case, sample| Position { case, sample };
        let name = &case.name;
        for (position, text) in [
            (ONLY, format!("[begins] {name}")),
            (at((2, 4), (1, 1)), format!("[begins] case 2/4, {name}")),
            (at((1, 1), (3, 5)), format!("[begins] sample 3/5, {name}")),
            (
                at((2, 4), (3, 5)),
                format!("[begins] case 2/4, sample 3/5, {name}"),
            ),
        ] {
            assert_eq!(opening(case, position), text);
        }
        let line = text(case, at((2, 4), (1, 1)), Some(&progress(0, 1, 1)), None);
        assert!(
            line.starts_with(&format!("[  1.0s] case 2/4, {name}: ")),
            "{line}"
        );
    }

    #[test]
    fn a_line_per_interval() {
        let run = canned::tour();
        let (stream, rr) = (&run.cases[0].case, &run.cases[1].case);
        let both = canned::busy().cases[0].case.clone();
        let client = progress(2, 2_675_000_000, 1);
        let server = progress(2, 1, 2_662_500_000);
        let lines = [
            text(stream, ONLY, Some(&client), Some(&server)),
            text(stream, ONLY, Some(&client), None),
            text(rr, ONLY, Some(&client), Some(&server)),
            text(rr, ONLY, None, Some(&server)),
            text(&both, ONLY, Some(&client), Some(&server)),
            text(stream, ONLY, Some(&progress(-1, 5, 0)), None),
            text(stream, ONLY, None, None),
        ];
        insta::assert_snapshot!(lines.join("\n").replace(" | ", "\n | "), @r#"
        [  3.0s] tcp stream 128K x1: 21.3 Gbit/s received, 21.4 Gbit/s sent
        [  3.0s] tcp stream 128K x1: 21.4 Gbit/s sent
        [  3.0s] tcp rr 1/1 x1: 45210 transactions/s
        [  3.0s] tcp rr 1/1 x1: no news of the asking side
        [  3.0s] tcp bidir 16K x8: 21.3 Gbit/s received, 21.4 Gbit/s sent
         | 8.00 bit/s received, 8.00 bit/s sent
        [warm-up] tcp stream 128K x1: 40.0 bit/s sent
        "#);
    }

    #[test]
    fn an_object_per_interval() {
        let run = canned::tour();
        let position = Position {
            case: (1, 4),
            sample: (2, 3),
        };
        let line = object(&run.cases[0].case, position, "server", &progress(3, 1, 2));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line.ends_with("}\n"));
        assert_eq!(value["type"], "interval");
        assert_eq!(value["case"], "tcp stream 128K x1");
        assert_eq!(
            (&value["sample"], &value["side"]),
            (&2.into(), &"server".into())
        );
        assert_eq!(
            (&value["case_number"], &value["cases"], &value["samples"]),
            (&1.into(), &4.into(), &3.into())
        );
        assert_eq!(
            (&value["index"], &value["groups"][0]["received_bytes"]),
            (&3.into(), &2.into())
        );
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn plain_lines_in_a_pipe_and_none_when_quiet() {
        for (quiet, expected) in [(false, "one\ntwo\n"), (true, "")] {
            let out = Shared::default();
            let mut live = LiveLine::new(quiet, false, Box::new(out.clone()));
            live.show("one").unwrap();
            live.clear();
            live.show("two").unwrap();
            assert_eq!(
                String::from_utf8(out.0.lock().unwrap().clone()).unwrap(),
                expected
            );
        }
    }
}
