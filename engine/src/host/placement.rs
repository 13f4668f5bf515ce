//! Which CPU each worker runs on.
//!
//! A list that the user typed is taken as it stands, worker i on its i-th CPU, once every CPU of
//! it is known to be usable. Without one, the allowed CPUs are taken with every core's first
//! hardware thread before any core's second, so that workers share a core only when they must.

use super::cpus::{Cpus, format_list};
use crate::record::{Finding, Severity};

/// Why workers cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlacementError {
    /// The host has no such CPU, or it is off.
    #[error("CPU {cpu} is not online on this host: choose from {}", format_list(.online))]
    NotOnline {
        /// The first such CPU of the list.
        cpu: u32,
        /// The CPUs that are online.
        online: Vec<u32>,
    },
    /// Affinity or a cpuset keeps this process off CPUs that it was told to use.
    #[error(
        "CPU {} may not be used by this process, which its affinity mask or cpuset holds to {}: \
         choose from those, or start it with a wider mask (taskset, the unit's AllowedCPUs, the \
         container's cpuset)",
        format_list(.cpus),
        format_list(.allowed)
    )]
    NotAllowed {
        /// The CPUs of the list that are not allowed.
        cpus: Vec<u32>,
        /// The CPUs that are.
        allowed: Vec<u32>,
    },
    /// No CPU is known to be usable.
    #[error(
        "no CPU that this process may use could be found under /proc and /sys: mount them, or \
         name the CPUs where they are mounted"
    )]
    NoCpu,
}

impl PlacementError {
    /// The exit code: 2 for a CPU beyond what the host has, 5 for one that it withholds.
    pub fn exit_code(&self) -> u8 {
        match self {
            PlacementError::NotOnline { .. } => 2,
            PlacementError::NotAllowed { .. } | PlacementError::NoCpu => 5,
        }
    }

    /// A stable identifier, kebab-case.
    pub fn code(&self) -> &'static str {
        match self {
            PlacementError::NotOnline { .. } => "cpu-not-online",
            PlacementError::NotAllowed { .. } => "cpu-not-allowed",
            PlacementError::NoCpu => "no-cpu",
        }
    }
}

/// Where one side's workers run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The CPU of each worker.
    pub cpus: Vec<u32>,
    /// What a reader of the numbers must know about it.
    pub findings: Vec<Finding>,
}

/// CPUs of a client and a server in one process, for each side's [`choose`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Apart {
    /// For the client's workers.
    pub client: Vec<u32>,
    /// For the server's workers.
    pub server: Vec<u32>,
    /// What a reader of the numbers must know about it.
    pub findings: Vec<Finding>,
}

/// Places `workers` on the `requested` CPUs, or, where none are, on the allowed ones but those to
/// `avoid`, which the other side's workers use on this same host.
///
/// # Errors
///
/// A requested CPU that is not online or not allowed; a host that shows no CPU at all.
pub fn choose(
    cpus: &Cpus,
    requested: &[u32],
    workers: u32,
    avoid: &[u32],
) -> Result<Placement, PlacementError> {
    check(cpus, requested)?;
    let list = match requested {
        [] => without(&spread(cpus), avoid),
        typed => typed.to_vec(),
    };
    if list.is_empty() {
        return Err(PlacementError::NoCpu);
    }
    let chosen: Vec<u32> = list
        .iter()
        .copied()
        .cycle()
        .take(workers as usize)
        .collect();
    let mut findings = Vec::new();
    findings.extend(shared_cpu(&chosen));
    findings.extend(shared_core(cpus, &chosen));
    findings.extend(shared_sides(&chosen, avoid));
    Ok(Placement {
        cpus: chosen,
        findings,
    })
}

/// Divides the allowed CPUs between a client and a server in one process, whole cores where there
/// are at least two. A list that was typed for one side stands, and the other side takes the rest.
///
/// # Errors
///
/// As [`choose`].
pub fn apart(cpus: &Cpus, client: &[u32], server: &[u32]) -> Result<Apart, PlacementError> {
    check(cpus, client)?;
    check(cpus, server)?;
    if cpus.allowed.is_empty() {
        return Err(PlacementError::NoCpu);
    }
    let (client, server) = match (client, server) {
        ([], []) => halves(cpus),
        ([], server) => (without(&spread(cpus), server), server.to_vec()),
        (client, []) => (client.to_vec(), without(&spread(cpus), client)),
        (client, server) => (client.to_vec(), server.to_vec()),
    };
    let findings = shared_sides(&client, &server).into_iter().collect();
    Ok(Apart {
        client,
        server,
        findings,
    })
}

fn check(cpus: &Cpus, requested: &[u32]) -> Result<(), PlacementError> {
    if requested.is_empty() {
        return Ok(());
    }
    if let Some(cpu) = requested.iter().find(|cpu| !cpus.online.contains(cpu)) {
        return Err(PlacementError::NotOnline {
            cpu: *cpu,
            online: cpus.online.clone(),
        });
    }
    let barred = |cpu: &&u32| !cpus.allowed.contains(cpu);
    let barred: Vec<u32> = requested.iter().filter(barred).copied().collect();
    match barred.is_empty() {
        true => Ok(()),
        false => Err(PlacementError::NotAllowed {
            cpus: barred,
            allowed: cpus.allowed.clone(),
        }),
    }
}

/// The allowed CPUs, every core's first thread before any core's second.
fn spread(cpus: &Cpus) -> Vec<u32> {
    let turn = |cpu: &u32| {
        let core = cpus.core(*cpu);
        let allowed = core.iter().filter(|thread| cpus.allowed.contains(thread));
        allowed.take_while(|thread| *thread < cpu).count()
    };
    let mut list = cpus.allowed.clone();
    list.sort_by_key(|cpu| (turn(cpu), *cpu));
    list
}

/// `list` but for `avoid`; all of it where nothing else would be left.
fn without(list: &[u32], avoid: &[u32]) -> Vec<u32> {
    let rest: Vec<u32> = list
        .iter()
        .filter(|cpu| !avoid.contains(cpu))
        .copied()
        .collect();
    if rest.is_empty() { list.to_vec() } else { rest }
}

/// The first half of the cores for the client, the second for the server; of one core its
/// threads; of one CPU that one for both.
fn halves(cpus: &Cpus) -> (Vec<u32>, Vec<u32>) {
    let mut cores: Vec<Vec<u32>> = Vec::new();
    for cpu in &cpus.allowed {
        match cores
            .iter_mut()
            .find(|core| cpus.core(*cpu).contains(&core[0]))
        {
            Some(core) => core.push(*cpu),
            None => cores.push(vec![*cpu]),
        }
    }
    if cores.len() == 1 {
        cores = cpus.allowed.iter().map(|cpu| vec![*cpu]).collect();
    }
    if cores.len() == 1 {
        return (cpus.allowed.clone(), cpus.allowed.clone());
    }
    let server: Vec<u32> = cores.split_off(cores.len() / 2).concat();
    let client: Vec<u32> = cores.concat();
    let order = spread(cpus);
    let pick = |half: &[u32]| {
        order
            .iter()
            .filter(|cpu| half.contains(cpu))
            .copied()
            .collect()
    };
    (pick(&client), pick(&server))
}

fn shared_cpu(chosen: &[u32]) -> Option<Finding> {
    let twice = twice(chosen);
    (!twice.is_empty()).then(|| {
        let text = format!(
            "{} workers run on {} CPUs: CPU {} has more than one of them, and they slow each \
             other down",
            chosen.len(),
            distinct(chosen),
            format_list(&twice)
        );
        Finding::new(Severity::Warning, "workers-share-cpu", text)
    })
}

fn shared_core(cpus: &Cpus, chosen: &[u32]) -> Option<Finding> {
    let shared = |core: &&Vec<u32>| core.iter().filter(|cpu| chosen.contains(cpu)).count() > 1;
    let cores: Vec<String> = cpus
        .siblings
        .iter()
        .filter(shared)
        .map(|c| format_list(c))
        .collect();
    (!cores.is_empty()).then(|| {
        let text = format!(
            "workers run on hardware threads of the same core (CPUs {}): together they do less \
             than on two cores",
            cores.join("; ")
        );
        Finding::new(Severity::Info, "workers-share-core", text)
    })
}

fn shared_sides(one: &[u32], other: &[u32]) -> Option<Finding> {
    let both: Vec<u32> = one
        .iter()
        .filter(|cpu| other.contains(cpu))
        .copied()
        .collect();
    (!both.is_empty()).then(|| {
        let text = format!(
            "client and server share CPU {}: neither side's figures are what it can do alone",
            format_list(&both)
        );
        Finding::new(Severity::Warning, "sides-share-cpu", text)
    })
}

fn twice(chosen: &[u32]) -> Vec<u32> {
    let count = |cpu: &u32| chosen.iter().filter(|other| *other == cpu).count();
    let mut twice: Vec<u32> = chosen
        .iter()
        .filter(|cpu| count(cpu) > 1)
        .copied()
        .collect();
    twice.sort_unstable();
    twice.dedup();
    twice
}

fn distinct(chosen: &[u32]) -> usize {
    chosen
        .iter()
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
