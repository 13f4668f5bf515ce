//! The client's session: every case, every sample, one result.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::control::client::{Client, ClientConfig, SampleOutcome};
use crate::control::runtime::{Choice, block_on};
use crate::control::stop::{self, Stop};
use crate::control::wire::{Offer, Refusal};
use crate::host::cpus::Cpus;
use crate::host::placement;
use crate::plan::{Case, Family, Proto, RunInvocation};
use crate::record::{CaseResult, ErrorReport, Finding, Progress, Run, Severity};
use crate::report::live::Live;

use super::assemble::{self, SampleInput};
use super::factory::Factory;
use super::interrupt::Interrupts;
use super::local::LocalServer;
use super::{VERSION, boot_id, host_facts, output};

/// Bytes of an IP and a UDP header.
const HEADERS_V4: u32 = 20 + 8;
const HEADERS_V6: u32 = 40 + 8;
/// Largest UDP payload.
const LARGEST_DATAGRAM: u32 = 65_507;

/// Runs the plan, writes the result, and returns the exit code.
pub fn execute(invocation: RunInvocation) -> u8 {
    let (handle, stop) = stop::channel();
    let interrupts = Interrupts::watch(handle);
    let plan = &invocation.plan;
    let mut run =
        Run::new(invocation.command.clone(), plan.title.clone(), SystemTime::now());
    if let Err(refusal) = conduct(&invocation, &mut run, stop) {
        run.error = Some(error(&refusal));
    }
    if let Some(code) = interrupts.exit_code() {
        let text = "interrupted by a signal; what was measured until then is kept".to_string();
        run.error.get_or_insert(ErrorReport {
            exit_code: code,
            code: "interrupted".to_string(),
            text,
        });
        run.complete = false;
    }
    if let Some(error) = &run.error {
        log::error!("{}", error.text);
    }
    let written = output::write(&run, &invocation);
    interrupts.exit_code().unwrap_or_else(|| output::exit_code(&run, written))
}

fn error(refusal: &Refusal) -> ErrorReport {
    ErrorReport {
        exit_code: refusal.exit_code,
        code: refusal.code.clone(),
        text: refusal.text.clone(),
    }
}

fn conduct(invocation: &RunInvocation, run: &mut Run, stop: Stop) -> Result<(), Refusal> {
    let local = invocation.host.is_none();
    let (client_cpus, server_cpus, findings) = cpus(invocation, local)?;
    let server = match local {
        true => Some(
            LocalServer::start(server_cpus.clone(), findings.clone())
                .map_err(|text| Refusal::new(5, "local-server", text))?,
        ),
        false => None,
    };
    let factory = Factory::new(client_cpus, local, findings);
    let session = Session { invocation, server_cpus, factory, stop };
    let address = server.as_ref().map(|s| s.address);
    block_on(Choice::Auto, |_| session.drive(run, address)).map_err(|error| {
        Refusal::new(5, "runtime", format!("the control plane cannot start: {error}"))
    })?
}

/// CPUs of the client's and the server's workers. In one process the two sides are kept apart.
fn cpus(
    invocation: &RunInvocation,
    local: bool,
) -> Result<(Vec<u32>, Vec<u32>, Vec<Finding>), Refusal> {
    let plan = &invocation.plan;
    if !local {
        return Ok((plan.client_cpus.clone(), plan.server_cpus.clone(), Vec::new()));
    }
    let cpus = Cpus::read(Path::new("/"));
    let apart = placement::apart(&cpus, &plan.client_cpus, &plan.server_cpus)
        .map_err(|e| Refusal::new(e.exit_code(), e.code(), e.to_string()))?;
    Ok((apart.client, apart.server, apart.findings))
}

struct Session<'a> {
    invocation: &'a RunInvocation,
    server_cpus: Vec<u32>,
    factory: Factory,
    stop: Stop,
}

impl Session<'_> {
    async fn drive(
        mut self,
        run: &mut Run,
        local: Option<std::net::SocketAddr>,
    ) -> Result<(), Refusal> {
        run.client = Some(host_facts(None));
        let mut client = self.connect(run, local).await?;
        let interface = crate::host::path::interface_to(client.local_address());
        let facts = host_facts(interface.as_deref());
        run.client = Some(facts);
        run.server = client.server_facts().cloned();
        let cases = self.invocation.plan.cases.clone();
        let mut complete = true;
        for (index, case) in cases.iter().enumerate() {
            if self.stop.is_set() || !client.is_alive() {
                complete = false;
                break;
            }
            complete &= self.case(&mut client, run, index as u32, case).await;
        }
        if client.is_alive() {
            client.bye().await;
        } else if !self.stop.is_set() {
            complete = false;
        }
        run.complete = complete;
        Ok(())
    }

    async fn connect(
        &self,
        run: &Run,
        local: Option<std::net::SocketAddr>,
    ) -> Result<Client, Refusal> {
        let plan = &self.invocation.plan;
        let (host, port) = match (&self.invocation.host, local) {
            (Some(host), _) => (host.host.clone(), host.port),
            (None, Some(address)) => ("localhost".to_string(), address.port()),
            (None, None) => ("localhost".to_string(), crate::plan::DEFAULT_PORT),
        };
        let families: Vec<Family> = plan.cases.iter().map(|case| case.family).collect();
        Client::connect(
            ClientConfig {
                host,
                port,
                families,
                wait_for_server: self.invocation.wait_for_server_ns.map(Duration::from_nanos),
                peer_timeout: Duration::from_nanos(plan.peer_timeout_ns),
                version: VERSION.to_string(),
                run: run.uuid.clone(),
                boot: boot_id(),
                facts: run.client.clone().unwrap_or_default(),
            },
            &self.stop,
        )
        .await
        .map_err(|error| error.refusal())
    }

    /// Runs a case's samples; false where anything ended early.
    async fn case(
        &mut self,
        client: &mut Client,
        run: &mut Run,
        index: u32,
        case: &Case,
    ) -> bool {
        let mut case = case.clone();
        resolve_size(client, &mut case).await;
        run.cases.push(CaseResult { case: case.clone(), samples: Vec::new(), error: None });
        let mut complete = true;
        for number in 1..=self.invocation.plan.samples {
            if self.stop.is_set() || !client.is_alive() {
                return false;
            }
            let offer = Offer {
                case_index: index,
                sample: number,
                case: case.clone(),
                cpus: self.server_cpus.clone(),
                avoid_cpus: Vec::new(),
                cookie: 0,
            };
            let started = SystemTime::now();
            let outcome = self.sample(client, offer).await;
            let refused = outcome.client.is_none() && outcome.server.is_none();
            let Some(result) = run.cases.last_mut() else { return false };
            if let (true, Some(refusal)) = (refused, &outcome.error) {
                log::error!("case `{}`: {}", case.name, refusal.text);
                result.error = Some(error(refusal));
                return false;
            }
            let sample = assemble::sample(input(&case, number, started, outcome));
            complete &= sample.complete;
            result.samples.push(sample);
        }
        complete
    }

    async fn sample(&mut self, client: &mut Client, offer: Offer) -> SampleOutcome {
        let invocation = self.invocation;
        let quiet = invocation.quiet || invocation.json_stream;
        let mut live =
            Live::new(&offer.case, offer.sample, quiet, std::io::stderr().is_terminal());
        let stream = invocation.json_stream;
        let mut show = |side, progress: &Progress| {
            live.progress(side == crate::control::crew::Side::Client, progress);
            if stream {
                output::stream(&offer, side, progress);
            }
        };
        let outcome = client.sample(&offer, &mut self.factory, &mut show, &self.stop).await;
        live.finish();
        outcome
    }
}

/// Takes the message size from the path, where the plan says so.
async fn resolve_size(client: &Client, case: &mut Case) {
    if case.proto != Proto::Udp || !case.size_from_path_mtu {
        return;
    }
    let (mtu, v6) = client.path_mtu(case.family).unwrap_or((1500, true));
    let headers = if v6 { HEADERS_V6 } else { HEADERS_V4 };
    let size = mtu.saturating_sub(headers).min(LARGEST_DATAGRAM).max(1);
    case.request_bytes = u64::from(size);
    case.name = case.name.replacen("mtu", &size.to_string(), 1);
}

fn input(
    case: &Case,
    number: u32,
    started: SystemTime,
    outcome: SampleOutcome,
) -> SampleInput<'_> {
    let mut findings = Vec::new();
    if let Some(text) = outcome.path_translated {
        findings.push(Finding::new(Severity::Info, "path-translated", text));
    }
    SampleInput {
        case,
        number,
        started,
        client: outcome.client,
        server: outcome.server,
        client_progress: outcome.client_progress,
        server_progress: outcome.server_progress,
        findings,
        error: outcome.error.as_ref().map(error),
    }
}
