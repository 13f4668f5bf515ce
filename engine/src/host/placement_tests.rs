//! Tests of the placement of workers.

use proptest::prelude::*;

use super::*;

/// Eight CPUs, four cores of two threads: 0 with 4, 1 with 5, and so on.
fn smt() -> Cpus {
    Cpus {
        online: (0..8).collect(),
        allowed: (0..8).collect(),
        siblings: (0..4).map(|core| vec![core, core + 4]).collect(),
    }
}

fn plain(allowed: &[u32]) -> Cpus {
    Cpus {
        online: (0..8).collect(),
        allowed: allowed.to_vec(),
        siblings: Vec::new(),
    }
}

fn codes(findings: &[Finding]) -> Vec<&str> {
    findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect()
}

#[test]
fn a_typed_list_stands_as_typed() {
    let placed = choose(&plain(&[0, 1, 2, 3]), &[3, 1, 2], 2, &[]).unwrap();
    assert_eq!(placed.cpus, [3, 1]);
    assert_eq!(placed.findings, []);
}

#[test]
fn more_workers_than_cpus_wrap_around_and_say_so() {
    let placed = choose(&plain(&[0, 1, 2, 3]), &[2, 1], 3, &[]).unwrap();
    assert_eq!(placed.cpus, [2, 1, 2]);
    assert_eq!(codes(&placed.findings), ["workers-share-cpu"]);
    assert!(
        placed.findings[0]
            .text
            .contains("3 workers run on 2 CPUs: CPU 2")
    );
}

#[test]
fn a_cpu_that_is_not_online_is_a_usage_error() {
    let error = choose(&plain(&[0, 1]), &[0, 9], 1, &[]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "CPU 9 is not online on this host: choose from 0-7"
    );
}

#[test]
fn a_cpu_that_is_withheld_is_the_hosts_limit() {
    let error = choose(&plain(&[0, 1]), &[1, 2, 5], 1, &[]).unwrap_err();
    assert_eq!(error.exit_code(), 5);
    assert!(
        error.to_string().starts_with("CPU 2,5 may not be used"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("cpuset holds to 0-1: choose from those"),
        "{error}"
    );
}

#[test]
fn a_host_without_cpus_is_an_error() {
    let error = choose(&Cpus::default(), &[], 1, &[]).unwrap_err();
    assert_eq!((error.exit_code(), error.code()), (5, "no-cpu"));
    assert_eq!(
        apart(&Cpus::default(), &[], &[]),
        Err(PlacementError::NoCpu)
    );
}

#[test]
fn cores_come_before_their_second_threads() {
    assert_eq!(choose(&smt(), &[], 4, &[]).unwrap().cpus, [0, 1, 2, 3]);
    let all = choose(&smt(), &[], 6, &[]).unwrap();
    assert_eq!(all.cpus, [0, 1, 2, 3, 4, 5]);
    assert_eq!(codes(&all.findings), ["workers-share-core"]);
    assert!(all.findings[0].text.contains("(CPUs 0,4; 1,5)"));
}

#[test]
fn the_other_sides_cpus_are_avoided() {
    let placed = choose(&plain(&[0, 1, 2]), &[], 2, &[0]).unwrap();
    assert_eq!((placed.cpus, placed.findings), (vec![1, 2], vec![]));
    let shared = choose(&plain(&[0]), &[], 1, &[0]).unwrap();
    assert_eq!(
        (shared.cpus, codes(&shared.findings)),
        (vec![0], vec!["sides-share-cpu"])
    );
}

#[test]
fn a_client_and_a_server_in_one_process_stand_apart() {
    let two = apart(&plain(&[0, 1]), &[], &[]).unwrap();
    assert_eq!(
        (two.client, two.server, two.findings),
        (vec![0], vec![1], vec![])
    );
    let odd = apart(&plain(&[1, 4, 6]), &[], &[]).unwrap();
    assert_eq!((odd.client, odd.server), (vec![1], vec![4, 6]));
    let cores = apart(&smt(), &[], &[]).unwrap();
    assert_eq!(
        (cores.client, cores.server),
        (vec![0, 1, 4, 5], vec![2, 3, 6, 7])
    );
}

#[test]
fn the_threads_of_a_single_core_are_divided() {
    let cpus = Cpus {
        online: vec![0, 1],
        allowed: vec![0, 1],
        siblings: vec![vec![0, 1]],
    };
    let sides = apart(&cpus, &[], &[]).unwrap();
    assert_eq!((sides.client, sides.server), (vec![0], vec![1]));
}

#[test]
fn a_single_cpu_is_shared_and_it_says_so() {
    let sides = apart(&plain(&[3]), &[], &[]).unwrap();
    assert_eq!((&sides.client, &sides.server), (&vec![3], &vec![3]));
    assert_eq!(codes(&sides.findings), ["sides-share-cpu"]);
}

#[test]
fn one_typed_list_leaves_the_rest_to_the_other_side() {
    let sides = apart(&plain(&[0, 1, 2]), &[1], &[]).unwrap();
    assert_eq!((sides.client, sides.server), (vec![1], vec![0, 2]));
    let sides = apart(&plain(&[0, 1, 2]), &[], &[0, 1]).unwrap();
    assert_eq!((sides.client, sides.server), (vec![2], vec![0, 1]));
    let same = apart(&plain(&[0, 1]), &[0], &[0]).unwrap();
    assert_eq!(codes(&same.findings), ["sides-share-cpu"]);
    assert_eq!(
        apart(&plain(&[0, 1]), &[0], &[7]).unwrap_err().exit_code(),
        5
    );
}

proptest! {
    #[test]
    fn every_worker_gets_an_allowed_cpu(
        allowed in proptest::collection::btree_set(0u32..8, 1..8),
        avoid in proptest::collection::vec(0u32..10, 0..4),
        workers in 0u32..20,
    ) {
        let cpus = Cpus { allowed: allowed.into_iter().collect(), ..smt() };
        let placed = choose(&cpus, &[], workers, &avoid).unwrap();
        prop_assert_eq!(placed.cpus.len(), workers as usize);
        prop_assert!(placed.cpus.iter().all(|cpu| cpus.allowed.contains(cpu)));
        let sides = apart(&cpus, &[], &[]).unwrap();
        prop_assert!(!sides.client.is_empty() && !sides.server.is_empty());
        let overlap = sides.client.iter().any(|cpu| sides.server.contains(cpu));
        prop_assert_eq!(overlap, cpus.allowed.len() == 1);
    }
}
