//! What works.

use std::net::Ipv6Addr;

use super::case::{bulk, crr, echo};
use super::fake::{Factory, Script};
use super::harness::{Server, config, connect_config, samples, server};
use crate::control::client::SampleOutcome;
use crate::control::crew::Side;
use crate::control::runtime::Choice;
use crate::control::server::ServeConfig;
use crate::plan::{Case, Options, Proto, SourcePorts};

fn names(outcome: &SampleOutcome) -> Vec<&str> {
    let report = outcome.server.as_ref().unwrap();
    report
        .flows
        .iter()
        .map(|flow| flow.local.as_str())
        .collect()
}

fn expected(groups: u32, flows: u32) -> Vec<String> {
    let all = (0..groups).flat_map(|group| (0..flows).map(move |flow| (group, flow)));
    let mut names: Vec<_> = all
        .map(|(group, flow)| format!("<{group}.{flow}>"))
        .collect();
    names.sort();
    names
}

fn whole(outcome: &SampleOutcome) {
    assert_eq!(outcome.error, None);
    assert!(outcome.client.as_ref().unwrap().complete);
    assert!(outcome.server.as_ref().unwrap().complete);
    assert_eq!(outcome.path_translated, None);
    assert!(!outcome.interrupted);
}

#[test]
fn a_session_runs_its_plan_and_every_flow_reaches_its_twin() {
    for choice in [Choice::Auto, Choice::Plain] {
        let script = Script {
            report_bytes: 500_000,
            ..Script::default()
        };
        let server = server(
            ServeConfig {
                one_off: true,
                ..config()
            },
            script,
            choice,
        );
        let two_groups = Case {
            groups: vec![bulk(1).groups[0]; 2],
            ..bulk(40)
        };
        let udp = Case {
            proto: Proto::Udp,
            ..echo(50)
        };
        let mut factory = Factory::new(Script::default());
        let cases = vec![bulk(300), two_groups, udp];
        let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
        outcomes.iter().for_each(whole);
        assert_eq!(names(&outcomes[0]), expected(1, 300));
        assert_eq!(names(&outcomes[1]), expected(2, 40));
        assert_eq!(
            names(&outcomes[2]),
            expected(1, 50),
            "no handshake reached a UDP flow"
        );
        let padding = &outcomes[0].server.as_ref().unwrap().findings[0].text;
        assert_eq!(padding.len(), 500_000);
        assert!(!outcomes[0].server_progress.is_empty());
        assert!(!outcomes[0].client_progress.is_empty());
        let offers = factory.offers.borrow();
        assert_eq!(
            (&offers[0].cpus, &offers[0].avoid_cpus),
            (&vec![1], &vec![0])
        );
        assert_ne!(offers[0].cookie, offers[1].cookie);
        let outcome = server.join();
        assert_eq!((outcome.sessions, outcome.error), (1, None));
    }
}

#[test]
fn both_families_reach_a_server_on_every_address() {
    let server = server(
        ServeConfig {
            bind: vec![],
            ..config()
        },
        Script::default(),
        Choice::Auto,
    );
    let mut hosts = vec!["127.0.0.1"];
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        hosts.push("::1");
    }
    for host in hosts {
        let udp = Case {
            proto: Proto::Udp,
            ..bulk(5)
        };
        let config = crate::control::client::ConnectConfig {
            host: host.into(),
            ..connect_config(server.address)
        };
        let mut factory = Factory::new(Script::default());
        let outcomes = samples(config, &mut factory, vec![bulk(5), udp, crr()]).unwrap();
        outcomes.iter().for_each(whole);
        assert_eq!(names(&outcomes[0]), expected(1, 5));
        assert_eq!(names(&outcomes[1]), expected(1, 5));
    }
    assert!(server.stop().interrupted);
}

#[test]
fn the_data_port_can_be_another_one() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first = taken.local_addr().unwrap().port();
    let data_ports = Some((first, first.saturating_add(20)));
    let server = server(
        ServeConfig {
            data_ports,
            ..config()
        },
        Script::default(),
        Choice::Auto,
    );
    let mut factory = Factory::new(Script::default());
    let udp = Case {
        proto: Proto::Udp,
        ..bulk(3)
    };
    let cases = vec![bulk(3), udp, crr()];
    let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
    outcomes.iter().for_each(whole);
    assert_eq!(names(&outcomes[1]), expected(1, 3));
}

#[test]
fn crr_transactions_go_to_the_workers() {
    let server = Server::plain(Script::default());
    let mut factory = Factory::new(Script::default());
    let cases = vec![crr(), bulk(2)];
    let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
    outcomes.iter().for_each(whole);
    let count = |report: &Option<crate::record::SideReport>| {
        report.as_ref().unwrap().groups[0].window.received_messages
    };
    assert!(count(&outcomes[0].client) > 1);
    assert!(count(&outcomes[0].server) > 1);
    assert_eq!(
        names(&outcomes[1]),
        expected(1, 2),
        "the server accepts again"
    );
}

#[test]
fn source_ports_are_what_was_asked_for() {
    let server = Server::plain(Script::default());
    let ports = |source_ports| Case {
        proto: Proto::Udp,
        options: Options {
            source_ports,
            ..Options::default()
        },
        ..bulk(2)
    };
    let free = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let narrow = SourcePorts::Range {
        first: free,
        last: free,
    };
    let mut factory = Factory::new(Script::default());
    let cases = vec![
        ports(SourcePorts::Fixed),
        ports(SourcePorts::Fixed),
        ports(narrow),
    ];
    let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
    whole(&outcomes[0]);
    whole(&outcomes[1]);
    let error = outcomes[2].error.as_ref().unwrap();
    assert_eq!((error.exit_code, error.code.as_str()), (2, "source-ports"));
    assert!(
        outcomes[2].server.is_some(),
        "the server reports what it had"
    );
}

#[test]
fn progress_of_both_sides_is_heard() {
    let server = Server::plain(Script::default());
    let mut sides = Vec::new();
    let config = connect_config(server.address);
    crate::control::runtime::block_on(Choice::Auto, |_| async {
        let mut client = crate::control::Client::connect(config, std::future::pending())
            .await
            .unwrap();
        assert_eq!(client.server_facts().hostname, "server");
        assert!(client.path_mtu(crate::plan::Family::Any).unwrap() >= 1280);
        let mut factory = Factory::new(Script::default());
        let mut heard = |side, _: &_| sides.push(side);
        let request = super::harness::request(echo(1));
        client
            .sample(request, &mut factory, &mut heard, std::future::pending())
            .await;
        client.bye().await;
    })
    .unwrap();
    assert!(
        sides.contains(&Side::Client) && sides.contains(&Side::Server),
        "{sides:?}"
    );
}
