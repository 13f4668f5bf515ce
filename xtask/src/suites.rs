//! The test suites: runs them through cargo, counts what they did, and takes a suite that skipped
//! every test for a failure.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::exec::{Finished, Show, run};

/// What a test prints when it cannot run here: `SKIP: reason` or `SKIP test: reason`.
const SKIP: &str = "SKIP";

/// Test files of this prefix need root and run one test at a time.
const PRIVILEGED: &str = "privileged";

/// Longest that one run may take, building included.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// Which tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Tests {
    /// Unit and documentation tests of every package.
    Unit,
    /// Integration tests that need no privilege.
    Suite,
    /// Integration tests that need root: namespaces, links, rules.
    Privileged,
}

impl Tests {
    /// All of them, the quickest first.
    pub const ALL: [Tests; 3] = [Tests::Unit, Tests::Suite, Tests::Privileged];
}

/// Tests by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Ran and passed.
    pub passed: u64,
    /// Failed, or a run of tests that did not get as far as to count.
    pub failed: u64,
    /// Said that they cannot run here, or are marked as ignored.
    pub skipped: u64,
}

impl Count {
    /// Adds another run's tests.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// Runs a suite of the workspace at `root`.
///
/// # Errors
///
/// Where the tests cannot be listed, or the user interrupts; failing tests are in the count.
pub fn run_suite(root: &Path, suite: Tests) -> Result<Count> {
    let mut count = Count::default();
    let runs = runs(root, suite)?;
    let are_there = !runs.is_empty();
    for arguments in runs {
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(root)
            .args(["test", "--locked", "--no-fail-fast"])
            .args(arguments);
        let one = match run(command, LIMIT, Show::Yes) {
            Ok(finished) => counted(&finished),
            Err(error) if crate::exec::interrupted() => return Err(error),
            Err(error) => {
                crate::say(&format!("{error:#}"));
                Count {
                    failed: 1,
                    ..Count::default()
                }
            }
        };
        count.add(one);
    }
    if suite == Tests::Privileged && are_there && count.passed == 0 && count.failed == 0 {
        crate::say("every privileged test was skipped, so nothing was tested");
        count.failed += 1;
    }
    Ok(count)
}

/// The arguments of each run of `cargo test` that makes up a suite.
fn runs(root: &Path, suite: Tests) -> Result<Vec<Vec<String>>> {
    let files = test_files(root)?;
    let is_privileged = |name: &&String| name.starts_with(PRIVILEGED);
    let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
    Ok(match suite {
        Tests::Unit => vec![
            words("--workspace --lib --bins"),
            words("--package ringperf --doc"),
        ],
        Tests::Suite => files
            .iter()
            .filter(|name| !is_privileged(name))
            .map(|name| {
                words(&format!(
                    "--package ringperf --test {name} -- --show-output"
                ))
            })
            .collect(),
        // Namespaces and CPUs are shared by the whole machine: one test at a time.
        Tests::Privileged => files
            .iter()
            .filter(is_privileged)
            .map(|name| format!("--package ringperf --test {name} -- --test-threads=1"))
            .map(|text| words(&format!("{text} --show-output")))
            .collect(),
    })
}

/// Names of the integration tests there are.
fn test_files(root: &Path) -> Result<BTreeSet<String>> {
    let folder = root.join("engine/tests");
    let mut names = BTreeSet::new();
    for entry in folder
        .read_dir()
        .with_context(|| folder.display().to_string())?
    {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem.filter(|_| path.extension().is_some_and(|e| e == "rs")) {
            names.insert(stem.to_string());
        }
    }
    Ok(names)
}

/// What a run's output says. A run that failed without a failed test, such as one that did not
/// compile or was killed, counts as one failure.
fn counted(finished: &Finished) -> Count {
    let mut count = Count::default();
    let mut said = 0;
    for line in finished.stdout.lines().chain(finished.stderr.lines()) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |word| number_before(result, word);
            count.passed += number(" passed;");
            count.failed += number(" failed;");
            count.skipped += number(" ignored;");
        } else if is_skip(line) {
            said += 1;
        }
    }
    // A test that says so has returned early, and the harness takes that for a pass.
    count.skipped += said;
    count.passed = count.passed.saturating_sub(said);
    if !finished.success && count.failed == 0 {
        count.failed = 1;
    }
    count
}

/// At the start of a line, or after the harness's `test name ... ` where output is not captured.
fn is_skip(line: &str) -> bool {
    let line = match line
        .strip_prefix("test ")
        .and_then(|rest| rest.split_once(" ... "))
    {
        Some((_, rest)) => rest,
        None => line,
    };
    line.strip_prefix(SKIP)
        .is_some_and(|rest| rest.starts_with([':', ' ']) && rest.contains(": "))
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(success: bool, stdout: &str) -> Count {
        counted(&Finished {
            success,
            stdout: stdout.to_string(),
            ..Finished::default()
        })
    }

    #[test]
    fn results_are_summed() {
        let text = "running 3 tests\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
            finished in 0.1s\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out;\n";
        let count = output(false, text);
        assert_eq!(
            count,
            Count {
                passed: 14,
                failed: 1,
                skipped: 1
            }
        );
        assert_eq!(count.to_string(), "14 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn skips_are_not_passes() {
        let text = "---- a stdout ----\nSKIP: not root\n\
            test b ... SKIP: no nft\n\
            SKIP c: no namespaces\n\
            a line about SKIP: itself\nSKIPPED: no\n";
        let result = "test result: ok. 4 passed; 0 failed; 0 ignored;\n";
        let expected = Count {
            passed: 1,
            failed: 0,
            skipped: 3,
        };
        assert_eq!(output(true, &format!("{text}{result}")), expected);
        assert_eq!(output(true, &format!("{result}{text}")), expected);
    }

    #[test]
    fn a_run_that_did_not_count_is_a_failure() {
        assert_eq!(
            output(false, "error: could not compile"),
            Count {
                failed: 1,
                ..Count::default()
            }
        );
    }

    #[test]
    fn the_suites_are_found_by_name() {
        let root = std::env::temp_dir().join(format!("ringperf-suites-{}", std::process::id()));
        let tests = root.join("engine/tests");
        std::fs::create_dir_all(tests.join("support")).unwrap();
        for name in [
            "suite.rs",
            "privileged.rs",
            "privileged_faults.rs",
            "notes.md",
        ] {
            std::fs::write(tests.join(name), "").unwrap();
        }
        let all = |suite| {
            runs(&root, suite)
                .unwrap()
                .into_iter()
                .map(|run| run.join(" "))
        };
        let privileged: Vec<String> = all(Tests::Privileged).collect();
        let suite: Vec<String> = all(Tests::Suite).collect();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(suite, ["--package ringperf --test suite -- --show-output"]);
        let serial = "-- --test-threads=1 --show-output";
        let names = ["privileged", "privileged_faults"];
        let expected = names.map(|name| format!("--package ringperf --test {name} {serial}"));
        assert_eq!(privileged, expected);
    }
}
