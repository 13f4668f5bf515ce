//! Deadlines and ends, one by one.

use super::*;
use crate::control::crew::{FLOW_FAILED, FlowKey};
use crate::control::tests::case::{bulk, crr, echo};
use crate::control::wire::{Message, Offer, Refusal};
use crate::plan::{Case, Direction, GroupPlan, Limit, Load, Traffic};

const TIMEOUT: u64 = 5 * SECOND;

fn offer(case: Case) -> Box<Offer> {
    let (cpus, avoid_cpus) = (vec![], vec![]);
    Box::new(Offer {
        case_index: 0,
        sample: 1,
        case,
        cpus,
        avoid_cpus,
        cookie: 0,
    })
}

/// A server session whose sample runs since time 0.
fn running_server(case: Case, max_duration: Option<u64>) -> ServerSession {
    let mut session = ServerSession::new(0, TIMEOUT, max_duration);
    let keys = terms::flow_keys(&case);
    session.on(0, ServerInput::Message(Message::Offer(offer(case))));
    session.on(0, ServerInput::Built(Ok((1, vec![]))));
    let last = keys.len() - 1;
    for (index, key) in keys.into_iter().enumerate() {
        assert!(session.expects(key));
        let actions = session.on(0, ServerInput::FlowOpened(key));
        assert_eq!(actions == [ServerAction::Arm], index == last);
    }
    let ready = session.on(0, ServerInput::Crew(CrewNews::Armed));
    assert_eq!(ready, [ServerAction::Send(Message::Ready)]);
    let start = session.on(0, ServerInput::Message(Message::Start));
    assert_eq!(start, [ServerAction::Start]);
    session
}

/// A client session whose sample runs since time 0.
fn running_client(case: Case) -> ClientSession {
    let mut session = ClientSession::new(0, TIMEOUT);
    session.on(0, ClientInput::Begin(offer(case)));
    session.on(
        0,
        ClientInput::Message(Message::Accepted {
            cookie: 1,
            cpus: vec![],
        }),
    );
    assert_eq!(
        session.on(0, ClientInput::Built(Ok(()))),
        [ClientAction::OpenFlows]
    );
    session.on(0, ClientInput::Message(Message::Ready));
    assert_eq!(session.on(0, ClientInput::FlowsOpened), [ClientAction::Arm]);
    let start = session.on(0, ClientInput::Crew(CrewNews::Armed));
    assert_eq!(
        start,
        [ClientAction::Send(Message::Start), ClientAction::Start]
    );
    session
}

fn seconds(case: Case, seconds: u64) -> Case {
    Case {
        limit: Limit::Duration {
            ns: seconds * SECOND,
        },
        ..case
    }
}

fn lives_at(session: &mut ServerSession, now: u64) -> bool {
    session.on(now, ServerInput::Tick);
    !session.ended()
}

#[test]
fn patience_is_longer_where_the_traffic_fills_the_path() {
    let mut rr = running_server(seconds(echo(1), 60), None);
    assert!(lives_at(&mut rr, TIMEOUT));
    assert!(!lives_at(&mut rr, TIMEOUT + 1));
    let mut stream = running_server(seconds(bulk(1), 60), None);
    assert!(lives_at(&mut stream, 15 * SECOND));
    assert!(!lives_at(&mut stream, 15 * SECOND + 1));
    let large = Case {
        request_bytes: 2 << 20,
        ..echo(1)
    };
    assert!(terms::fills_path(&large) && !terms::fills_path(&echo(1)));
}

#[test]
fn received_payload_is_a_sign_of_life_and_its_absence_is_not() {
    let mut session = running_server(seconds(echo(1), 60), None);
    let progress = |received_total| {
        let progress = Progress {
            received_total,
            ..Progress::default()
        };
        ServerInput::Crew(CrewNews::Progress(Box::new(progress)))
    };
    for second in 1..20 {
        session.on(second * SECOND, progress(second));
        assert!(lives_at(&mut session, second * SECOND));
    }
    for second in 20..25 {
        session.on(second * SECOND, progress(19));
    }
    assert!(!lives_at(&mut session, 25 * SECOND));
}

#[test]
fn a_server_stops_what_the_client_does_not() {
    let beat = || ServerInput::Message(Message::Heartbeat);
    let failed = |actions: &[ServerAction]| {
        actions.iter().find_map(|action| match action {
            ServerAction::Send(Message::Failed(refusal)) => Some(refusal.text.clone()),
            _ => None,
        })
    };
    let bytes = Case {
        limit: Limit::Bytes { bytes: 1 },
        ..bulk(1)
    };
    for (case, max, end, word) in [
        (seconds(bulk(1), 2), None, 17, "planned end"),
        (bytes, Some(3 * SECOND), 3, "--max-duration"),
    ] {
        let mut session = running_server(case, max);
        for second in 1..end {
            session.on(second * SECOND, beat());
            assert_eq!(
                failed(&session.on(second * SECOND, ServerInput::Tick)),
                None
            );
        }
        let actions = session.on(end * SECOND, ServerInput::Tick);
        assert!(failed(&actions).unwrap().contains(word));
        assert!(actions.contains(&ServerAction::Finish));
    }
}

#[test]
fn a_flow_counts_once_and_only_where_it_belongs() {
    let mut session = ServerSession::new(0, TIMEOUT, None);
    assert!(
        !session.expects(FlowKey { group: 0, flow: 0 }),
        "not before an offer"
    );
    session.on(0, ServerInput::Message(Message::Offer(offer(bulk(2)))));
    session.on(0, ServerInput::Built(Ok((1, vec![]))));
    let key = FlowKey { group: 0, flow: 1 };
    assert_eq!(session.on(0, ServerInput::FlowOpened(key)), []);
    assert!(!session.expects(key));
    assert_eq!(session.on(0, ServerInput::FlowOpened(key)), []);
    assert!(!session.expects(FlowKey { group: 0, flow: 2 }));
    assert!(!session.expects(FlowKey { group: 1, flow: 0 }));
    assert!(!session.expects(crate::control::hello::PROBE));
    assert_eq!(terms::flow_keys(&crr()), [crate::control::hello::PROBE]);
}

#[test]
fn a_fixed_window_ends_when_both_sides_had_it_or_soon_after_the_first() {
    let stop = [ClientAction::Send(Message::Stop), ClientAction::Stop];
    let done = || ClientInput::Crew(CrewNews::WindowDone);
    let server_done = || ClientInput::Message(Message::WindowDone);
    let mut both = running_client(seconds(bulk(1), 1));
    assert_eq!(both.on(SECOND, done()), []);
    assert_eq!(both.on(SECOND + 1, server_done()), stop);

    let mut one = running_client(seconds(bulk(1), 1));
    one.on(SECOND, done());
    assert!(
        !one.on(3 * SECOND - 1, ClientInput::Tick)
            .contains(&ClientAction::Stop)
    );
    assert!(one.on(3 * SECOND, ClientInput::Tick).ends_with(&stop));

    let mut neither = running_client(seconds(bulk(1), 1));
    for second in 1..6 {
        neither.on(second * SECOND, ClientInput::Message(Message::Heartbeat));
        let actions = neither.on(second * SECOND, ClientInput::Tick);
        assert!(!actions.contains(&ClientAction::Stop));
    }
    assert!(neither.on(6 * SECOND, ClientInput::Tick).ends_with(&stop));
}

#[test]
fn an_exact_count_ends_when_every_sending_side_has_sent() {
    let exact = |groups| Case {
        limit: Limit::Bytes { bytes: 9 },
        groups,
        ..bulk(1)
    };
    let group = |direction| GroupPlan {
        traffic: Traffic::Stream,
        direction,
    };
    let (out, back) = (Direction::ClientToServer, Direction::ServerToClient);
    let done = || ClientInput::Crew(CrewNews::WindowDone);
    let server_done = || ClientInput::Message(Message::WindowDone);
    let stops = |actions: Vec<ClientAction>| actions.contains(&ClientAction::Stop);

    assert!(stops(running_client(exact(vec![group(out)])).on(1, done())));
    let mut reverse = running_client(exact(vec![group(back)]));
    assert!(!stops(reverse.on(1, done())));
    assert!(stops(reverse.on(2, server_done())));
    let mut bidir = running_client(exact(vec![group(out), group(back)]));
    assert!(!stops(bidir.on(1, server_done())));
    assert!(stops(bidir.on(2, done())));
}

#[test]
fn a_schedule_puts_no_more_on_the_path_than_the_depth() {
    let load = Load::Rate { per_second: 1e6 };
    assert!(!terms::fills_path(&Case { load, ..echo(1) }));
    let mut rr = running_server(seconds(Case { load, ..echo(1) }, 60), None);
    assert!(lives_at(&mut rr, TIMEOUT) && !lives_at(&mut rr, TIMEOUT + 1));
}

#[test]
fn a_broken_flow_is_the_symptom_of_what_the_server_says_next() {
    let refusal = |code: &str| Refusal::new(4, code, code);
    let done = |actions: Vec<ClientAction>| {
        actions.into_iter().find_map(|action| match action {
            ClientAction::Done(error) => error.map(|error| error.code),
            _ => None,
        })
    };
    let broken = || ClientInput::Crew(CrewNews::Failed(refusal(FLOW_FAILED)));
    let stopped = || ClientInput::Crew(CrewNews::Stopped);
    let lost = || ClientInput::Lost("gone".to_string());

    let mut session = running_client(bulk(1));
    session.on(0, broken());
    let said = Message::Failed(refusal("max-duration"));
    session.on(1, ClientInput::Message(said));
    session.on(2, stopped());
    let end = session.on(LONG_AFTER, ClientInput::Tick);
    assert_eq!(done(end).as_deref(), Some("max-duration"));

    let mut session = running_client(bulk(1));
    session.on(0, broken());
    session.on(1, lost());
    assert_eq!(
        done(session.on(2, stopped())).as_deref(),
        Some("server-lost")
    );

    let mut session = running_client(bulk(1));
    session.on(
        0,
        ClientInput::Crew(CrewNews::Failed(refusal("worker-failed"))),
    );
    session.on(1, lost());
    assert_eq!(
        done(session.on(2, stopped())).as_deref(),
        Some("worker-failed")
    );
}

/// Later than anything waits for.
const LONG_AFTER: u64 = 3600 * SECOND;
