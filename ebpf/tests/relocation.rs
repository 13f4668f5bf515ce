//! The committed object against the type information of other kernels, without a kernel and
//! without privilege: every access must find its field.
//!
//! `tests/data/btf/<version>.btf` holds what the object needs to know of Debian's kernels of that
//! version; its README says how it was made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aya::Endianness;
use aya_obj::Object;
use aya_obj::btf::Btf;
use aya_obj::generated::{BPF_CALL, BPF_JMP};
use ringperf_ebpf::OBJECT;
use ringperf_ebpf::programs::{SLOW_PATH, STAGES};

/// What the loader leaves in place of an access that it could not relocate: a call of a helper
/// that does not exist.
const POISON: i32 = 0xbad_2310;

fn kernels() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/btf");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of kernels")
        .map(|entry| entry.expect("its entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "btf"))
        .collect();
    files.sort();
    files
}

fn poisoned(object: &Object) -> Vec<String> {
    let call = (BPF_JMP | BPF_CALL) as u8;
    let broken = object.functions.values().filter(|function| {
        let mut instructions = function.instructions.iter();
        instructions.any(|one| one.code == call && one.imm == POISON)
    });
    broken.map(|function| function.name.clone()).collect()
}

#[test]
fn every_access_relocates_on_every_kernel() {
    let kernels = kernels();
    assert_eq!(kernels.len(), 5, "{kernels:?}");
    for kernel in kernels {
        let btf = Btf::parse_file(&kernel, Endianness::default()).expect("type information");
        let mut object = Object::parse(OBJECT).expect("the committed object");
        object
            .relocate_btf(&btf)
            .unwrap_or_else(|e| panic!("{}: {e}", kernel.display()));
        assert_eq!(
            poisoned(&object),
            Vec::<String>::new(),
            "{}",
            kernel.display()
        );
    }
}

/// The object and the table of programs name the same programs.
#[test]
fn every_program_is_in_the_table() {
    let object = Object::parse(OBJECT).expect("the committed object");
    let there: BTreeSet<&str> = object.programs.keys().map(String::as_str).collect();
    let named: BTreeSet<&str> = SLOW_PATH
        .iter()
        .chain(STAGES)
        .flat_map(|probe| probe.programs.iter().copied())
        .collect();
    assert_eq!(there, named);
}

/// A field that a kernel lacks is found by the test above: an empty kernel lacks them all.
#[test]
fn a_kernel_without_the_fields_is_told() {
    let mut object = Object::parse(OBJECT).expect("the committed object");
    let result = object.relocate_btf(&Btf::new());
    assert!(result.is_err() || !poisoned(&object).is_empty());
}
