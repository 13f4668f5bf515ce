//! What goes wrong within a session.

use std::time::{Duration, Instant};

use super::case::{bulk, echo};
use super::fake::{Factory, Script};
use super::harness::{Raw, Server, connect_config, interrupted, mute_server, request, samples};
use crate::control::client::{Client, ConnectConfig};
use crate::control::crew::Side;
use crate::control::runtime::{Choice, block_on};
use crate::control::stop;
use crate::control::wire::{Message, Offer};
use crate::plan::{Case, Limit};

fn long(case: Case) -> Case {
    Case {
        limit: Limit::Duration { ns: 20_000_000_000 },
        ..case
    }
}

#[test]
fn a_killed_server_ends_the_sample_within_two_seconds() {
    let server = Server::plain(Script::default());
    let config = connect_config(server.address);
    let mut killed_at = None;
    let outcome = block_on(Choice::Auto, |_| async {
        let mut client = Client::connect(config, std::future::pending())
            .await
            .unwrap();
        let mut factory = Factory::new(Script::default());
        let mut heard = 0;
        let mut on_progress = |side, _: &_| {
            heard += usize::from(side == Side::Server);
            if heard == 2 && killed_at.is_none() {
                killed_at = Some(Instant::now());
                server.kill();
            }
        };
        let never = std::future::pending();
        let case = request(long(bulk(4)));
        let outcome = client
            .sample(case, &mut factory, &mut on_progress, never)
            .await;
        assert!(!client.alive());
        outcome
    })
    .unwrap();
    assert!(killed_at.unwrap().elapsed() < Duration::from_secs(2));
    let error = outcome.error.unwrap();
    assert_eq!((error.exit_code, error.code.as_str()), (4, "server-lost"));
    assert_eq!(outcome.server, None);
    assert!(
        outcome.server_progress.len() >= 2,
        "the server's counts are not lost"
    );
    assert!(!outcome.client.unwrap().complete);
}

#[test]
fn a_killed_client_frees_the_server_within_two_seconds() {
    let server = Server::plain(Script::default());
    let config = connect_config(server.address);
    block_on(Choice::Auto, |_| async {
        let mut client = Client::connect(config, std::future::pending())
            .await
            .unwrap();
        let mut factory = Factory::new(Script::default());
        let mut ignore = |_, _: &_| {};
        let never = std::future::pending();
        let sample = client.sample(request(long(bulk(4))), &mut factory, &mut ignore, never);
        let killed = tokio::time::timeout(Duration::from_millis(300), sample).await;
        assert!(killed.is_err(), "still running when killed");
    })
    .unwrap();
    server.wait_free(Duration::from_secs(2));
    let mut factory = Factory::new(Script::default());
    let outcomes = samples(connect_config(server.address), &mut factory, vec![bulk(1)]).unwrap();
    assert_eq!(outcomes[0].error, None);
}

#[test]
fn an_interrupted_sample_keeps_both_partial_results() {
    let server = Server::plain(Script::default());
    let (handle, stop) = stop::channel();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        handle.stop();
    });
    let start = Instant::now();
    let mut factory = Factory::new(Script::default());
    let config = connect_config(server.address);
    let outcome = interrupted(config, &mut factory, long(bulk(3)), &stop);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(outcome.interrupted);
    assert_eq!(outcome.error, None);
    assert!(!outcome.client.unwrap().complete);
    let server_report = outcome.server.unwrap();
    assert!(!server_report.complete);
    assert_eq!(server_report.flows.len(), 3);
    server.wait_free(Duration::from_secs(2));
    timer.join().unwrap();
}

#[test]
fn a_stopped_server_sends_its_partial_result() {
    let server = Server::plain(Script::default());
    let config = connect_config(server.address);
    let client = std::thread::spawn(move || {
        let mut factory = Factory::new(Script::default());
        samples(config, &mut factory, vec![long(bulk(3))])
            .unwrap()
            .remove(0)
    });
    std::thread::sleep(Duration::from_millis(400));
    let alive = server.alive.clone();
    let served = server.stop();
    assert!(served.interrupted);
    assert_eq!(served.error.unwrap().code, "server-stopped");
    assert_eq!(alive.load(std::sync::atomic::Ordering::SeqCst), 0);
    let outcome = client.join().unwrap();
    assert_eq!(outcome.error.unwrap().code, "server-stopped");
    assert_eq!(outcome.server.unwrap().flows.len(), 3);
    assert!(outcome.client.is_some());
}

#[test]
fn a_failing_worker_on_either_side_ends_the_sample_with_both_reports() {
    let failing = Script {
        fail_after: Some(Duration::from_millis(100)),
        ..Script::default()
    };
    for (server_script, client_script) in [
        (failing.clone(), Script::default()),
        (Script::default(), failing),
    ] {
        let server = Server::plain(server_script);
        let mut factory = Factory::new(client_script);
        let start = Instant::now();
        let cases = vec![long(bulk(2))];
        let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
        assert!(start.elapsed() < Duration::from_secs(3));
        let error = outcomes[0].error.as_ref().unwrap();
        assert_eq!((error.exit_code, error.code.as_str()), (5, "fake-failure"));
        assert!(outcomes[0].client.is_some());
        assert_eq!(outcomes[0].server.as_ref().unwrap().flows.len(), 2);
        server.wait_free(Duration::from_secs(1));
        let alive = factory.alive.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(alive, 0);
    }
}

#[test]
fn a_silent_client_is_left_after_the_peer_timeout() {
    let server = Server::plain(Script::default());
    let mut raw = Raw::session(server.address, 1_000_000_000);
    let offer = Offer {
        case_index: 0,
        sample: 1,
        case: echo(1),
        cpus: vec![],
        avoid_cpus: vec![],
        cookie: 0,
    };
    raw.send(&Message::Offer(Box::new(offer)));
    assert!(matches!(
        raw.next(),
        Some(Message::Accepted { cookie: 1.., .. })
    ));
    let start = Instant::now();
    server.wait_free(Duration::from_secs(3));
    assert!(
        start.elapsed() > Duration::from_millis(900),
        "not before the time-out"
    );
    let mut factory = Factory::new(Script::default());
    let outcomes = samples(connect_config(server.address), &mut factory, vec![bulk(1)]).unwrap();
    assert_eq!(outcomes[0].error, None, "the next client is served");
}

#[test]
fn a_silent_server_is_left_after_the_peer_timeout() {
    let (address, server) = mute_server(None);
    let config = ConnectConfig {
        peer_timeout_ns: 1_000_000_000,
        ..connect_config(address)
    };
    let mut factory = Factory::new(Script::default());
    let start = Instant::now();
    let outcomes = samples(config, &mut factory, vec![echo(1)]).unwrap();
    let took = start.elapsed();
    assert!((1..4).contains(&took.as_secs()), "{took:?}");
    let error = outcomes[0].error.as_ref().unwrap();
    assert_eq!((error.exit_code, error.code.as_str()), (4, "server-lost"));
    assert!(error.text.contains("nothing arrived"), "{error}");
    server.join().unwrap();
}

#[test]
fn an_idle_session_ends_after_ten_seconds() {
    let server = Server::plain(Script::default());
    let mut raw = Raw::session(server.address, 1_000_000_000);
    raw.stream
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let start = Instant::now();
    let Some(Message::Failed(refused)) = raw.next() else {
        panic!("no word")
    };
    assert_eq!(refused.code, "idle");
    let took = start.elapsed().as_secs_f64();
    assert!((9.5..11.5).contains(&took), "{took}");
}
