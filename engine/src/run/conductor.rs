//! The client's session: every case, every sample, one result.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::control::client::{Client, ConnectConfig, SampleOutcome, SampleRequest};
use crate::control::crew::Side;
use crate::control::runtime::{Choice, block_on};
use crate::control::stop::{self, Stop};
use crate::control::wire::Refusal;
use crate::host::cpus::Cpus;
use crate::host::placement::{self, Apart};
use crate::plan::{Case, Family, ProbeUse, Proto, RunInvocation};
use crate::record::{ErrorReport, Finding, HostFacts, Progress, Run, Sample, Severity};
use crate::report::live::{self, LiveLine, Position, opening};

use super::assemble::{self, SampleInput};
use super::factory::Factory;
use super::interrupt::Interrupts;
use super::ledger::Ledger;
use super::local::LocalServer;
use super::output::Outputs;
use super::probed;
use super::{VERSION, boot_id, host_facts, output, path_facts};

/// Code of what a signal ended.
const INTERRUPTED: &str = "interrupted";

/// Bytes of an IP and a UDP header.
const HEADERS_V4: u32 = 20 + 8;
const HEADERS_V6: u32 = 40 + 8;
/// Largest UDP payload.
const LARGEST_DATAGRAM: u32 = 65_507;

/// How long a result that is being written may still take after a second signal.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the plan, writes the result, and returns the exit code.
pub fn execute(invocation: RunInvocation) -> u8 {
    let (handle, stop) = stop::channel();
    let plan = &invocation.plan;
    let ledger = Ledger::new(Run::new(
        invocation.command.clone(),
        plan.title.clone(),
        SystemTime::now(),
    ));
    let invocation = Arc::new(invocation);
    let (book, shared) = (ledger.clone(), Arc::clone(&invocation));
    let interrupts = Interrupts::watch(handle, move |code| abandon(&book, &shared, code));
    let (outputs, refused) = Outputs::tried(&invocation);
    let ended = match refused {
        Some(refusal) => Err(refusal),
        None => conduct(&invocation, &ledger, stop),
    };
    match ledger.take() {
        Some(run) => {
            let run = concluded(run, ended.err(), interrupts.exit_code());
            let code = outputs.write(run, &invocation);
            interrupts.exit_code().unwrap_or(code)
        }
        // A second signal took it, and ends the process once it is written.
        None => loop {
            std::thread::park();
        },
    }
}

/// A second signal came: what is known is written without waiting for anything else.
fn abandon(ledger: &Ledger, invocation: &RunInvocation, code: u8) {
    match ledger.take() {
        Some(mut run) => {
            interrupted(&mut run, code, ABANDONED);
            Outputs::of(invocation).write(run, invocation);
        }
        None => std::thread::sleep(LAST_WORDS),
    }
}

/// The run with why it ended.
fn concluded(mut run: Run, failed: Option<Refusal>, signal: Option<u8>) -> Run {
    if let Some(refusal) = failed {
        run.error = Some(error(&refusal));
    }
    if let Some(code) = signal {
        interrupted(&mut run, code, STOPPED);
    }
    match &run.error {
        Some(error) => log::error!("{}", error.text),
        // Said when it happened.
        None => run.error = output::gravest(&run),
    }
    run
}

/// What the first signal leaves.
const STOPPED: &str = "interrupted by a signal; what was measured until then is kept";
/// What the second leaves.
const ABANDONED: &str = "abandoned by a second signal; what was known until then is kept, without \
                         the other side's last report";

/// A run that a signal ended says so, with the exit code of that signal.
fn interrupted(run: &mut Run, exit_code: u8, text: &str) {
    let other = run.error.take().filter(|error| error.code != INTERRUPTED);
    run.error = other.or_else(|| {
        Some(ErrorReport {
            exit_code,
            code: INTERRUPTED.to_string(),
            text: text.to_string(),
        })
    });
    run.complete = false;
}

fn error(refusal: &Refusal) -> ErrorReport {
    ErrorReport {
        exit_code: refusal.exit_code,
        code: refusal.code.clone(),
        text: refusal.text.clone(),
    }
}

fn conduct(invocation: &RunInvocation, ledger: &Ledger, stop: Stop) -> Result<(), Refusal> {
    let local = invocation.host.is_none();
    let cpus = cpus(invocation, local)?;
    let notes = &invocation.plan.notes;
    let note = |note: &String| Finding::new(Severity::Info, "plan", note);
    ledger.with(|run| run.findings.extend(notes.iter().map(note)));
    let server = match local {
        true => Some(
            LocalServer::start(cpus.clone())
                .map_err(|text| Refusal::new(5, "local-server", text))?,
        ),
        false => None,
    };
    let session = Session {
        invocation,
        ledger,
        factory: Factory::new(
            cpus.client,
            local.then(|| cpus.server.clone()),
            cpus.findings,
        ),
        server_cpus: cpus.server,
        stop,
    };
    let address = server.as_ref().map(|s| s.address);
    block_on(Choice::Auto, |_| session.drive(address)).map_err(|error| {
        Refusal::new(
            5,
            "runtime",
            format!("the control plane cannot start: {error}"),
        )
    })?
}

/// CPUs of the client's and the server's workers. In one process the two sides are kept apart.
fn cpus(invocation: &RunInvocation, local: bool) -> Result<Apart, Refusal> {
    let plan = &invocation.plan;
    if local {
        let cpus = Cpus::read(Path::new("/"));
        return placement::apart(&cpus, &plan.client_cpus, &plan.server_cpus)
            .map_err(|e| Refusal::new(e.exit_code(), e.code(), e.to_string()));
    }
    Ok(Apart {
        client: plan.client_cpus.clone(),
        server: plan.server_cpus.clone(),
        findings: Vec::new(),
    })
}

struct Session<'a> {
    invocation: &'a RunInvocation,
    ledger: &'a Ledger,
    server_cpus: Vec<u32>,
    factory: Factory,
    stop: Stop,
}

impl Session<'_> {
    async fn drive(mut self, local: Option<std::net::SocketAddr>) -> Result<(), Refusal> {
        let facts = host_facts(None);
        self.ledger.with(|run| run.client = Some(facts.clone()));
        let mut client = self.connect(facts, local).await?;
        let (own, other) = (
            path_facts(client.addresses().0),
            client.server_facts().clone(),
        );
        self.ledger
            .with(|run| (run.client, run.server) = (Some(own), Some(other)));
        let cases = &self.invocation.plan.cases;
        let mut complete = true;
        for (index, case) in cases.iter().enumerate() {
            if self.stop.is_set() || !client.alive() {
                complete = false;
                break;
            }
            complete &= self.case(&mut client, index as u32, case).await;
        }
        if client.alive() {
            client.bye().await;
        } else if !self.stop.is_set() {
            complete = false;
        }
        self.ledger.with(|run| run.complete = complete);
        Ok(())
    }

    async fn connect(
        &self,
        facts: HostFacts,
        local: Option<std::net::SocketAddr>,
    ) -> Result<Client, Refusal> {
        let plan = &self.invocation.plan;
        let (host, port) = match (&self.invocation.host, local) {
            (Some(host), _) => (host.host.clone(), host.port),
            (None, address) => (
                loopback(&plan.cases),
                address.map_or(crate::plan::DEFAULT_PORT, |address| address.port()),
            ),
        };
        Client::connect(
            ConnectConfig {
                host,
                port,
                family: family(&plan.cases),
                wait_for_server: self.invocation.wait_for_server_ns.map(Duration::from_nanos),
                peer_timeout_ns: plan.peer_timeout_ns,
                bind: plan.cases.first().and_then(|case| case.options.bind),
                device: plan
                    .cases
                    .first()
                    .and_then(|case| case.options.device.clone()),
                version: VERSION.to_string(),
                run: self.ledger.uuid(),
                boot: boot_id(),
                facts,
            },
            self.stop.wait(),
        )
        .await
        .map_err(|error| error.refusal())
    }

    /// Runs a case's samples; false where anything ended early.
    async fn case(&mut self, client: &mut Client, index: u32, case: &Case) -> bool {
        let mut case = probed::measured(case.clone());
        resolve_size(client, &mut case).await;
        self.ledger.case(&case);
        let mut complete = true;
        for number in 1..=self.samples(&case) {
            if self.stop.is_set() || !client.alive() {
                return false;
            }
            let started = SystemTime::now();
            self.ledger.open(&case, number, started);
            let request = self.request(index, number, &case);
            let outcome = self.sample(client, request).await;
            let failed = outcome.error.as_ref().filter(|e| e.code != INTERRUPTED);
            if let Some(refusal) = failed {
                log::error!("case `{}`: {}", case.name, refusal.text);
            }
            if !outcome.started {
                let failed = failed.map(error);
                self.ledger.close(|result| result.error = failed);
                return false;
            }
            let quiet = outcome.error.is_some() || outcome.interrupted;
            let sample = assembled(&case, number, started, outcome);
            if !quiet {
                complain(&case, &sample);
            }
            complete &= sample.complete;
            self.ledger.close(|result| result.samples.push(sample));
        }
        self.further(client, index).await;
        complete
    }

    /// Samples of a case.
    fn samples(&self, case: &Case) -> u32 {
        match case.options.probes {
            ProbeUse::Only => 1,
            _ => self.invocation.plan.samples,
        }
    }

    fn request(&self, index: u32, number: u32, case: &Case) -> SampleRequest {
        SampleRequest {
            case_index: index,
            sample: number,
            case: case.clone(),
            client_cpus: Vec::new(),
            server_cpus: self.server_cpus.clone(),
        }
    }

    /// Runs the further sample with the stage probes, where the case gets one. That it fails is
    /// no fault of the case's.
    async fn further(&mut self, client: &mut Client, index: u32) {
        let mut wanted = None;
        self.ledger.with(|run| {
            let result = run.cases.last();
            wanted = result.and_then(|result| probed::further(&result.case, &result.samples));
        });
        let Some(case) = wanted else { return };
        if self.stop.is_set() || !client.alive() {
            return;
        }
        let number = self.samples(&case) + 1;
        let started = SystemTime::now();
        let request = self.request(index, number, &case);
        let mut show = |_: Side, _: &Progress| {};
        let outcome = client
            .sample(request, &mut self.factory, &mut show, self.stop.wait())
            .await;
        if let Some(refusal) = &outcome.error {
            log::info!("case `{}`, with stages: {}", case.name, refusal.text);
        }
        if !outcome.started {
            return;
        }
        let sample = assembled(&case, number, started, outcome);
        if sample.complete {
            self.ledger.close(|result| {
                result.probed = Some(Box::new(probed::beside(sample, &result.samples)));
            });
        }
    }

    async fn sample(&mut self, client: &mut Client, request: SampleRequest) -> SampleOutcome {
        let invocation = self.invocation;
        let quiet = invocation.quiet || invocation.json_stream;
        let err = std::io::stderr();
        let mut line = LiveLine::new(quiet, err.is_terminal(), Box::new(err));
        let case = request.case.clone();
        let position = Position {
            case: (request.case_index as usize + 1, invocation.plan.cases.len()),
            sample: (request.sample, invocation.plan.samples),
        };
        line.show_on_terminal(&opening(&case, position));
        let mut latest = (None, None);
        let stream = invocation.json_stream;
        let ledger = self.ledger;
        let mut show = |side: Side, progress: &Progress| {
            ledger.heard(side, progress);
            if !progress.worth_showing(&case) {
                return;
            }
            if stream {
                output::interval(ledger, &case, position, side, progress);
            }
            match side {
                Side::Client => latest.0 = Some(progress.clone()),
                Side::Server => latest.1 = Some(progress.clone()),
            }
            if let Some(text) = pair(&case, position, &mut latest)
                && let Err(error) = line.show(&text)
            {
                log::debug!("stderr cannot be written: {error}");
            }
        };
        let factory = &mut self.factory;
        let outcome = client
            .sample(request, factory, &mut show, self.stop.wait())
            .await;
        line.clear();
        outcome
    }
}

/// What makes the run fail is said on stderr too, where the document goes elsewhere.
fn complain(case: &Case, sample: &Sample) {
    for finding in &sample.findings {
        if finding.severity == Severity::Error {
            log::error!("case `{}`: {}", case.name, finding.text);
        }
    }
}

/// The live line of an interval, once both sides have told of it.
fn pair(
    case: &Case,
    position: Position,
    latest: &mut (Option<Progress>, Option<Progress>),
) -> Option<String> {
    let same = match latest {
        (Some(client), Some(server)) => client.index == server.index,
        _ => false,
    };
    if !same {
        return None;
    }
    let (client, server) = (latest.0.take(), latest.1.take());
    Some(live::text(case, position, client.as_ref(), server.as_ref()))
}

/// Family of the control connection: that of the cases, where they agree.
fn family(cases: &[Case]) -> Family {
    let first = cases.first().map_or(Family::Any, |case| case.family);
    if cases.iter().all(|case| case.family == first) {
        first
    } else {
        Family::Any
    }
}

/// Loopback as a host: an address where one will do, so that no resolver is asked.
fn loopback(cases: &[Case]) -> String {
    let any = |family| cases.iter().any(|case| case.family == family);
    match (any(Family::V4), any(Family::V6)) {
        (false, true) => "::1",
        (true, true) => "localhost",
        (_, false) => "127.0.0.1",
    }
    .to_string()
}

/// Takes the message size from the path, where the plan says so.
async fn resolve_size(client: &Client, case: &mut Case) {
    if case.proto != Proto::Udp || !case.size_from_path_mtu {
        return;
    }
    let v6 = client
        .target(case.family)
        .is_ok_and(|target| target.is_ipv6());
    let mtu = client.path_mtu(case.family).unwrap_or(1500);
    let headers = if v6 { HEADERS_V6 } else { HEADERS_V4 };
    let size = mtu
        .saturating_sub(headers)
        .clamp(1, LARGEST_DATAGRAM / case.options.gso.unwrap_or(1).max(1));
    case.request_bytes = u64::from(size);
    case.name = case.name.replacen("mtu", &size.to_string(), 1);
}

fn assembled(case: &Case, number: u32, started: SystemTime, outcome: SampleOutcome) -> Sample {
    let mut findings = Vec::new();
    if let Some(text) = outcome.path_translated {
        findings.push(Finding::new(Severity::Info, "path-translated", text));
    }
    assemble::sample(SampleInput {
        case,
        number,
        started,
        client: outcome.client,
        server: outcome.server,
        client_progress: &outcome.client_progress,
        server_progress: &outcome.server_progress,
        findings,
        error: outcome.error.as_ref().map(error),
    })
}
