//! Random inputs: never a panic, always an end, and never a crew left behind.

use proptest::prelude::*;

use super::*;
use crate::control::crew::FlowKey;
use crate::control::tests::case::{bulk, crr, echo};
use crate::control::wire::{Message, Offer};
use crate::plan::{Case, Limit};
use crate::record::SideReport;

fn case() -> impl Strategy<Value = Case> {
    prop_oneof![
        Just(bulk(2)),
        Just(crr()),
        Just(echo(3)),
        Just(Case {
            limit: Limit::Bytes { bytes: 5 },
            ..bulk(1)
        }),
    ]
}

fn offer() -> impl Strategy<Value = Message> {
    case().prop_map(|case| {
        Message::Offer(Box::new(Offer {
            case_index: 0,
            sample: 1,
            case,
            cpus: vec![],
            avoid_cpus: vec![],
            cookie: 0,
        }))
    })
}

fn message() -> impl Strategy<Value = Message> {
    let refusal = || Refusal::new(4, "x", "y");
    prop_oneof![
        4 => offer(),
        1 => Just(Message::Accepted { cookie: 1, cpus: vec![] }),
        2 => Just(Message::Ready),
        2 => Just(Message::Start),
        1 => Just(Message::Stop),
        1 => Just(Message::WindowDone),
        1 => Just(Message::Heartbeat),
        1 => Just(Message::Progress(Box::default())),
        1 => Just(Message::Failed(refusal())),
        1 => Just(Message::Refused(refusal())),
        1 => (0u32..3, any::<bool>())
            .prop_map(|(piece, last)| Message::Results { piece, last, text: "{}".into() }),
    ]
}

fn news() -> impl Strategy<Value = CrewNews> {
    prop_oneof![
        4 => Just(CrewNews::Armed),
        1 => any::<u64>().prop_map(|received_total| {
            CrewNews::Progress(Box::new(Progress { received_total, ..Progress::default() }))
        }),
        2 => Just(CrewNews::WindowDone),
        2 => Just(CrewNews::Stopped),
        1 => Just(CrewNews::Failed(Refusal::new(5, "x", "y"))),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Message(Message),
    News(CrewNews),
    Flow(u32, u32),
    Flows(bool),
    BuildFails,
    Wait(u64),
    Lost,
    Interrupt,
    Begin(Box<Case>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => message().prop_map(Step::Message),
        5 => news().prop_map(Step::News),
        6 => (0u32..2, 0u32..3).prop_map(|(group, flow)| Step::Flow(group, flow)),
        3 => any::<bool>().prop_map(Step::Flows),
        1 => Just(Step::BuildFails),
        4 => (0u64..3 * SECOND).prop_map(Step::Wait),
        1 => Just(Step::Lost),
        1 => Just(Step::Interrupt),
        4 => case().prop_map(|case| Step::Begin(Box::new(case))),
    ]
}

/// A server session with a counted crew.
struct Server {
    session: ServerSession,
    now: u64,
    crews: u32,
    build_fails: bool,
}

impl Server {
    fn feed(&mut self, input: ServerInput) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for action in self.session.on(self.now, input) {
                match action {
                    ServerAction::Build(_) if self.build_fails => {
                        inputs.push(ServerInput::Built(Err(Refusal::new(5, "x", "y"))));
                    }
                    ServerAction::Build(_) => {
                        assert_eq!(self.crews, 0, "a second crew");
                        self.crews = 1;
                        inputs.push(ServerInput::Built(Ok((7, vec![]))));
                    }
                    ServerAction::Arm | ServerAction::Start | ServerAction::Stop => {
                        assert_eq!(self.crews, 1, "{action:?} without a crew");
                    }
                    ServerAction::Finish => {
                        self.crews -= 1;
                        inputs.push(ServerInput::Finished(Box::<SideReport>::default()));
                    }
                    ServerAction::Discard => self.crews -= 1,
                    ServerAction::End(_) => assert!(self.session.ended()),
                    ServerAction::Send(_) => {}
                }
            }
        }
        assert!(
            self.session.busy() || self.crews == 0,
            "a crew without a sample"
        );
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Message(message) => self.feed(ServerInput::Message(message)),
            Step::News(news) => self.feed(ServerInput::Crew(news)),
            Step::Flow(group, flow) => {
                self.feed(ServerInput::FlowOpened(FlowKey { group, flow }));
            }
            Step::BuildFails => self.build_fails = !self.build_fails,
            Step::Wait(ns) => {
                self.now += ns;
                self.feed(ServerInput::Tick);
            }
            Step::Lost => self.feed(ServerInput::Lost("x".into())),
            Step::Interrupt => {
                self.feed(ServerInput::Shutdown(Refusal::new(4, "x", "y")));
            }
            Step::Flows(_) | Step::Begin(_) => {}
        }
    }
}

/// A client session with a counted crew.
struct Client {
    session: ClientSession,
    now: u64,
    crews: u32,
    samples: i64,
    build_fails: bool,
}

impl Client {
    fn feed(&mut self, input: ClientInput) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for action in self.session.on(self.now, input) {
                match action {
                    ClientAction::Build { .. } if self.build_fails => {
                        inputs.push(ClientInput::Built(Err(Refusal::new(5, "x", "y"))));
                    }
                    ClientAction::Build { .. } => {
                        assert_eq!(self.crews, 0, "a second crew");
                        self.crews = 1;
                        inputs.push(ClientInput::Built(Ok(())));
                    }
                    ClientAction::Arm | ClientAction::Start | ClientAction::Stop => {
                        assert_eq!(self.crews, 1, "{action:?} without a crew");
                    }
                    ClientAction::Finish => self.crews -= 1,
                    ClientAction::Done(_) => {
                        self.samples -= 1;
                        assert_eq!(self.crews, 0, "done with a crew");
                    }
                    ClientAction::Send(_)
                    | ClientAction::OpenFlows
                    | ClientAction::Progress(..)
                    | ClientAction::ServerReport(_) => {}
                }
            }
        }
        assert_eq!(self.samples, i64::from(!self.session.idle()));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Message(message) => self.feed(ClientInput::Message(message)),
            Step::News(news) => self.feed(ClientInput::Crew(news)),
            Step::Flows(true) => self.feed(ClientInput::FlowsOpened),
            Step::Flows(false) => {
                self.feed(ClientInput::FlowsFailed(Refusal::new(4, "x", "y")));
            }
            Step::BuildFails => self.build_fails = !self.build_fails,
            Step::Wait(ns) => {
                self.now += ns;
                self.feed(ClientInput::Tick);
            }
            Step::Lost => self.feed(ClientInput::Lost("x".into())),
            Step::Interrupt => self.feed(ClientInput::Interrupt),
            Step::Begin(case) if self.session.idle() => {
                self.samples += 1;
                self.feed(ClientInput::Begin(Box::new(Offer {
                    case_index: 0,
                    sample: 1,
                    case: *case,
                    cpus: vec![],
                    avoid_cpus: vec![],
                    cookie: 0,
                })));
            }
            Step::Begin(_) | Step::Flow(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_server_session_always_ends(steps in prop::collection::vec(step(), 0..60)) {
        let session = ServerSession::new(0, 5 * SECOND, None);
        let mut server = Server { session, now: 0, crews: 0, build_fails: false };
        for step in steps {
            server.step(step);
        }
        for _ in 0..40 {
            server.step(Step::Wait(SECOND));
        }
        prop_assert!(server.session.ended(), "{:?}", server.session);
        prop_assert_eq!(server.crews, 0);
    }

    #[test]
    fn a_client_sample_always_ends(steps in prop::collection::vec(step(), 0..60)) {
        let session = ClientSession::new(0, 5 * SECOND);
        let mut client =
            Client { session, now: 0, crews: 0, samples: 0, build_fails: false };
        for step in steps {
            client.step(step);
        }
        for _ in 0..40 {
            client.step(Step::Wait(SECOND));
        }
        prop_assert!(client.session.idle(), "{:?}", client.session);
        prop_assert_eq!(client.crews, 0);
    }
}
