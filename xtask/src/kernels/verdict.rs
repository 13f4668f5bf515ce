//! Whether a kernel showed what it must.

use serde_json::Value;

use super::expected::Kernel;
use super::guest::{BEGIN, END, RUNS};

/// What is wrong with what a machine printed, in words; nothing where all is well.
pub fn problems(kernel: &Kernel, printed: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let documents: Vec<(&str, &str)> = printed
        .split(BEGIN)
        .skip(1)
        .filter_map(|part| part.split_once(END))
        .collect();
    if documents.len() != RUNS.len() {
        let tail: Vec<&str> = printed.lines().rev().take(5).collect();
        problems.push(format!(
            "{} of {} runs ended; the last lines were: {}",
            documents.len(),
            RUNS.len(),
            tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
        ));
    }
    for (at, ((text, rest), arguments)) in documents.iter().zip(RUNS).enumerate() {
        let code = rest.lines().next().unwrap_or_default().trim();
        if code != "0" {
            problems.push(format!("`{arguments}` ended with {code}"));
        }
        match serde_json::from_str::<Value>(text) {
            Ok(document) => problems.extend(of_document(kernel, &document, at == 0)),
            Err(error) => problems.push(format!("`{arguments}`: no document: {error}")),
        }
    }
    problems
}

/// The counts of every sample add up, and those with probes show the stages.
fn of_document(kernel: &Kernel, document: &Value, probed: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let release = document["client"]["kernel"].as_str().unwrap_or_default();
    if !release.starts_with(&format!("{}.", kernel.version)) {
        problems.push(format!("it is {release:?}, not {}", kernel.version));
    }
    if !document["error"].is_null() {
        problems.push(format!("error: {}", document["error"]));
    }
    for case in list(&document["cases"]) {
        let name = case["case"]["name"].as_str().unwrap_or_default();
        if list(&case["samples"]).is_empty() {
            problems.push(format!("{name}: no sample"));
        }
        for sample in list(&case["samples"]) {
            let adds_up = |group: &Value| group["reconciliation"]["reconciled"] == true;
            if !list(&sample["groups"]).iter().all(adds_up) {
                problems.push(format!("{name}: counts do not add up"));
            }
            if probed {
                let tcp = case["case"]["proto"] == "tcp";
                let wanted = if tcp { &kernel.tcp } else { &kernel.udp };
                problems.extend(of_probes(name, sample, wanted));
            }
        }
    }
    problems
}

fn of_probes(name: &str, sample: &Value, wanted: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    for side in ["client", "server"] {
        let kernel = &sample["kernel"][side];
        if list(&kernel["attached"]).is_empty() {
            problems.push(format!("{name}, {side}: no program is attached"));
        }
        for missing in list(&kernel["unavailable"]) {
            if missing["status"].get("not-supported").is_none() {
                problems.push(format!("{name}, {side}: {missing}"));
            }
        }
        for finding in list(&kernel["findings"]) {
            problems.push(format!("{name}, {side}: {}", finding["text"]));
        }
    }
    // Both sides are one machine, where the asking side tells of the whole way.
    let stages = list(&sample["kernel"]["client"]["stages"]);
    for stage in wanted {
        let counted = |s: &Value| s["stage"] == stage.as_str() && s["count"].as_u64() > Some(0);
        if !stages.iter().any(counted) {
            problems.push(format!("{name}: no {stage}"));
        }
    }
    problems
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            version: "6.1".to_string(),
            suite: "bookworm".to_string(),
            always: true,
            cx16: false,
            tcp: vec!["queue".to_string()],
            udp: vec!["queue".to_string()],
        }
    }

    fn document() -> Value {
        let side = json!({
            "attached": ["kfree_skb"],
            "findings": [],
            "unavailable": [{"program": "x", "status": {"not-supported": {"since": "6.16"}}}],
            "stages": [{"stage": "queue", "count": 3}],
        });
        let groups = json!([{"reconciliation": {"reconciled": true}}]);
        json!({
            "client": {"kernel": "6.1.0-50-cloud-amd64"},
            "error": null,
            "cases": [{
                "case": {"name": "one", "proto": "tcp"},
                "samples": [{"groups": groups, "kernel": {"client": side, "server": side}}],
            }],
        })
    }

    fn printed(document: &Value, code: u32) -> String {
        let one = format!("{BEGIN}\n{document}\n{END} {code}\n");
        one.repeat(RUNS.len())
    }

    #[test]
    fn a_kernel_that_shows_everything_has_no_problem() {
        assert_eq!(
            problems(&kernel(), &printed(&document(), 0)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_kind_of_lack_is_told() {
        let told = |document: &Value, code: u32, text: &str| {
            let problems = problems(&kernel(), &printed(document, code));
            assert!(problems.iter().any(|p| p.contains(text)), "{problems:?}");
        };
        told(&document(), 5, "ended with 5");
        for (pointer, value, text) in [
            ("/client/kernel", json!("6.12.1"), "not 6.1"),
            ("/error", json!({"code": "x"}), "error:"),
            ("/cases/0/samples", json!([]), "no sample"),
            (
                "/cases/0/samples/0/groups/0/reconciliation/reconciled",
                json!(false),
                "add up",
            ),
            (
                "/cases/0/samples/0/kernel/server/attached",
                json!([]),
                "server: no program",
            ),
            (
                "/cases/0/samples/0/kernel/client/stages/0/count",
                json!(0),
                "one: no queue",
            ),
            (
                "/cases/0/samples/0/kernel/client/unavailable/0/status",
                json!("failed"),
                "failed",
            ),
        ] {
            let mut changed = document();
            *changed.pointer_mut(pointer).unwrap() = value;
            told(&changed, 0, text);
        }
        let cut = printed(&document(), 0).replacen(END, "", 1);
        let problems = problems(&kernel(), &cut);
        assert!(problems[0].contains("2 of 3 runs ended"), "{problems:?}");
    }
}
