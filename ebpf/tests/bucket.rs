//! The programs' bucket function, compiled for this host, against the Rust one.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringperf_ebpf::bucket::{BUCKETS, bucket, highest, lowest};

/// Reads numbers, writes their buckets.
const MAIN: &str = r#"
#include <stdio.h>
#include "bucket.h"
int main(void)
{
	unsigned long long value;
	while (scanf("%llu", &value) == 1)
		printf("%u\n", bucket_of(value));
	return 0;
}
"#;

/// The C function's answers to all values.
fn in_c(program: &Path, values: &[u64]) -> Vec<usize> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the compiled program runs");
    let mut input = child.stdin.take().expect("its input is a pipe");
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("its output can be read");
    writer
        .join()
        .expect("the writer ends")
        .expect("its input takes all values");
    let text = String::from_utf8(output.stdout).expect("it writes digits");
    text.lines()
        .map(|line| line.parse().expect("it writes numbers"))
        .collect()
}

#[test]
fn both_sides_have_the_same_buckets() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("main.c");
    let program = directory.path().join("main");
    fs::write(&source, MAIN).expect("the source can be written");
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-Werror", "-I"])
        .args([&headers, &source])
        .arg("-o")
        .arg(&program)
        .status()
        .expect("gcc is needed: install it");
    assert!(
        compiled.success(),
        "the header does not compile for this host"
    );

    let mut values: Vec<u64> = (0..BUCKETS).flat_map(|i| [lowest(i), highest(i)]).collect();
    values.extend(0..5000);
    let mut runner = TestRunner::new(Config::with_cases(1));
    let random = prop::collection::vec((any::<u64>(), 0u32..64), 20_000..20_001);
    runner
        .run(&random, |list| {
            let values: Vec<u64> = list.iter().map(|(value, shift)| value >> shift).collect();
            let expected: Vec<usize> = values.iter().map(|value| bucket(*value)).collect();
            prop_assert_eq!(in_c(&program, &values), expected);
            Ok(())
        })
        .expect("random values of every size agree");
    let expected: Vec<usize> = values.iter().map(|value| bucket(*value)).collect();
    assert_eq!(in_c(&program, &values), expected);
}
