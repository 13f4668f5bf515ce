//! Instructions of the engine's own code per operation, counted under callgrind with an engine
//! in memory, and held under committed ceilings. A count of instructions is the same on every
//! machine of an architecture and under any load, which no time is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{BELOW, BUILD, NOT_MEASURED};
use crate::exec::{Show, on_path, run};
use crate::{print, say};

/// The committed ceilings.
const CEILINGS: &str = "benches/instr/ceilings.txt";

/// Operations of the two runs of each case. Their difference is free of what a run costs once.
const FEW: u64 = 20_000;
const MANY: u64 = 60_000;

/// Longest that one run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Functions of the engine in memory, which the kernel and a real engine take the place of.
const NOT_OURS: [&str; 2] = ["<instr::", "instr::"];

/// Counts every case and compares; 1 where one is above its ceiling, 3 without valgrind.
///
/// # Errors
///
/// Where the driver does not build or run, or the ceilings cannot be read.
pub fn check(root: &Path) -> Result<u8> {
    if !is_possible() {
        print("instructions not counted: valgrind is not on the path")?;
        return Ok(NOT_MEASURED);
    }
    let file = root.join(CEILINGS);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let ceilings = ceilings(&text)?;
    let program = build(root)?;
    let mut code = 0;
    for (case, ceiling) in ceilings {
        let found = per_operation(&program, &case)?;
        let verdict = match found <= ceiling {
            true => "ok",
            false => {
                code = BELOW;
                "ABOVE"
            }
        };
        print(&format!(
            "{case:<20} {found:8.1} instructions per operation: {verdict} {ceiling}"
        ))?;
    }
    Ok(code)
}

/// Whether this machine can count.
pub fn is_possible() -> bool {
    on_path("valgrind")
}

/// A case and its ceiling a line; `#` begins a comment.
fn ceilings(text: &str) -> Result<Vec<(String, f64)>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (case, ceiling) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("{CEILINGS}: no ceiling in `{line}`"))?;
        let ceiling = ceiling
            .trim()
            .parse()
            .with_context(|| format!("{CEILINGS}: `{line}`"))?;
        all.push((case.to_string(), ceiling));
    }
    if all.is_empty() {
        bail!("{CEILINGS} has no case");
    }
    Ok(all)
}

/// Builds the driver as the program is built, and finds it.
fn build(root: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args([
        "bench",
        "--locked",
        "--no-run",
        "--profile=release",
        "--package=ringperf",
        "--bench=instr",
        "--message-format=json-render-diagnostics",
    ]);
    let finished = run(command, BUILD, Show::No)?;
    if !finished.success {
        bail!("the driver does not build:\n{}", finished.stderr);
    }
    executable(&finished.stdout).context("cargo names no driver")
}

/// The program of the target `instr` in cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            message
                .pointer("/target/name")
                .is_some_and(|n| n == "instr")
        })
        .find_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
}

fn per_operation(program: &Path, case: &str) -> Result<f64> {
    let few = counted(program, case, FEW)?;
    let many = counted(program, case, MANY)?;
    if many <= few {
        bail!("{case}: {many} instructions for {MANY} operations, {few} for {FEW}");
    }
    Ok((many - few) as f64 / (MANY - FEW) as f64)
}

/// Instructions of a run that are ours.
fn counted(program: &Path, case: &str, operations: u64) -> Result<u64> {
    let name = format!("ringperf-instr-{}-{operations}", std::process::id());
    let profile = std::env::temp_dir().join(name);
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([case, &operations.to_string()]);
    let finished = run(command, LIMIT, Show::No);
    let text = fs::read_to_string(&profile).unwrap_or_default();
    let _ = fs::remove_file(&profile);
    let finished = finished?;
    if !finished.success {
        say(&finished.stderr);
        bail!("the driver failed with {case}");
    }
    let ours = own_instructions(&text);
    if ours == 0 {
        bail!("callgrind counted nothing of {case}");
    }
    Ok(ours)
}

/// What a callgrind profile counts in functions that are ours: every line of cost below the name
/// of its function, but for the line below a call, which is of what was called.
fn own_instructions(profile: &str) -> u64 {
    let mut names: Vec<(String, bool)> = Vec::new();
    let (mut is_ours, mut is_of_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            is_ours = ours(function, &mut names);
        } else if let Some(function) = line.strip_prefix("cfn=") {
            // Where a function's number is named first may be a call.
            ours(function, &mut names);
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if line
            .starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-' || c == '*')
        {
            let cost = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
            if is_ours && !is_of_call {
                sum += cost.unwrap_or(0);
            }
            is_of_call = false;
        }
    }
    sum
}

/// Whether a function is ours; `(12) name` names number 12 for what follows, `(12)` recalls it.
fn ours(function: &str, names: &mut Vec<(String, bool)>) -> bool {
    let (number, name) = function.split_once(' ').unwrap_or((function, ""));
    if !name.is_empty() {
        let is_ours = !NOT_OURS.iter().any(|start| name.starts_with(start));
        names.push((number.to_string(), is_ours));
        return is_ours;
    }
    names
        .iter()
        .rev()
        .find(|(known, _)| known == number)
        .is_some_and(|(_, is_ours)| *is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_counted_and_no_call_twice() {
        let profile = "events: Ir\n\
            fn=(1) ringperf::worker::cycle::Worker<B>::run\n\
            10 100\n\
            +2 20\n\
            cfn=(2) <instr::memory::Memory as ringperf::backend::Backend>::next\n\
            calls=7 30\n\
            11 7000\n\
            * 3\n\
            \n\
            fn=(2)\n\
            30 7000\n\
            cfn=(3) core::ptr::drop\n\
            calls=1 1\n\
            31 50\n\
            \n\
            fn=(3)\n\
            1 50\n\
            totals: 7173\n";
        assert_eq!(own_instructions(profile), 100 + 20 + 3 + 50);
        assert_eq!(own_instructions(""), 0);
    }

    #[test]
    fn ceilings_are_lines_with_comments() {
        let text = "# case ceiling\ntcp-stream-send  120\n\ntcp-rr-ask 300.5 # why\n";
        let expected = [
            ("tcp-stream-send".to_string(), 120.0),
            ("tcp-rr-ask".to_string(), 300.5),
        ];
        assert_eq!(ceilings(text).unwrap(), expected);
        assert!(ceilings("tcp-rr-ask").is_err());
        assert!(ceilings("tcp-rr-ask many").is_err());
        assert!(ceilings("# nothing\n").is_err());
    }

    #[test]
    fn cargo_names_the_driver() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"ringperf\"},\
            \"executable\":null}\nnot json\n\
            {\"target\":{\"name\":\"instr\"},\"executable\":\"/t/instr-1\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/instr-1")));
        assert_eq!(executable(""), None);
    }
}
