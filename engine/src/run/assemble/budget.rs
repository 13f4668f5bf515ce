//! Two processes or hosts: each side knows its own half of a budget, by its own clock, and the
//! network is what neither of them accounts for.

use crate::record::{BudgetLine, BudgetStatus, KernelReport};

/// The stage of an asking side that cannot see the other.
const ELSEWHERE: &str = "network-and-server";

/// Completes the asking side's budget with the answering side's: network = round trip less the
/// time inside the client less the time inside the server, always both directions together.
pub(super) fn join(client: &mut Option<KernelReport>, server: Option<&KernelReport>) {
    let (Some(client), Some(server)) = (client, server) else {
        return;
    };
    let (Some(total), Some(inside)) = (&mut client.budget_total, &server.budget_total) else {
        return;
    };
    let Some(at) = client.budget.iter().position(|l| l.stage == ELSEWHERE) else {
        return;
    };
    if inside.transactions == 0 || client.budget[at].seen == 0 {
        return;
    }
    let elsewhere = client.budget.remove(at);
    if let Some(tail) = &mut client.tail {
        tail.network_and_server_ns = elsewhere.tail_ns;
    }
    let whole = inside.transactions.abs_diff(total.transactions) * 100 <= total.transactions;
    let network = BudgetLine {
        stage: "network".to_string(),
        status: match elsewhere.status {
            BudgetStatus::Measured if !whole => BudgetStatus::Partial,
            status => status,
        },
        mean_ns: (elsewhere.mean_ns - inside.mean_ns).max(0.0),
        tail_ns: None,
        ..elsewhere
    };
    let others = server.budget.iter().cloned().chain([network]);
    client.budget.splice(at..at, others);
    total.unattributed_ns += inside.unattributed_ns;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::BudgetTotal;

    fn report(lines: &[(&str, f64)], mean_ns: f64, unattributed_ns: f64) -> KernelReport {
        KernelReport {
            budget: lines
                .iter()
                .map(|(stage, mean_ns)| BudgetLine {
                    stage: (*stage).to_string(),
                    seen: 1000,
                    mean_ns: *mean_ns,
                    ..BudgetLine::default()
                })
                .collect(),
            budget_total: Some(BudgetTotal {
                flows: 1,
                transactions: 1000,
                mean_ns,
                unattributed_ns,
            }),
            ..KernelReport::default()
        }
    }

    #[test]
    fn the_network_is_what_neither_side_has() {
        let lines = [("submit", 2.0), (ELSEWHERE, 70.0), ("copy", 5.0)];
        let mut client = Some(report(&lines, 80.0, 3.0));
        let server = report(&[("application", 20.0)], 24.0, 4.0);
        join(&mut client, Some(&server));
        let client = client.unwrap();
        let lines: Vec<(&str, f64)> = (client.budget.iter())
            .map(|line| (line.stage.as_str(), line.mean_ns))
            .collect();
        let expected = [
            ("submit", 2.0),
            ("application", 20.0),
            ("network", 46.0),
            ("copy", 5.0),
        ];
        assert_eq!(lines, expected);
        let total = client.budget_total.unwrap();
        let sum: f64 = lines.iter().map(|(_, ns)| ns).sum();
        assert!((sum + total.unattributed_ns - total.mean_ns).abs() < 1e-9);
    }

    #[test]
    fn without_the_servers_half_it_stays_one_line() {
        let lines = [("submit", 2.0), (ELSEWHERE, 70.0)];
        let before = Some(report(&lines, 72.0, 0.0));
        let mut client = before.clone();
        join(&mut client, Some(&KernelReport::default()));
        join(&mut client, None);
        assert_eq!(client, before);
    }
}
