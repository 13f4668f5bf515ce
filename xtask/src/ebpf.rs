//! Builds the kernel programs, or proves that the committed object is what the source gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The compiler that the committed object is made with (Debian 12). Another version gives other
/// bytes, and one before 15 knows no 64-bit enumerations, which the programs must not use anyway.
pub const CLANG: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";

/// Writes `layout.h` and the object, or with `check` compares the committed ones with fresh ones.
///
/// # Errors
///
/// Where clang or llvm-strip of version 14 are missing, the source does not compile, or a
/// committed file differs.
pub fn run(check: bool) -> Result<()> {
    let package = package();
    let header = package.join("src/layout.h");
    let fresh = ringperf_ebpf::layout::header();
    if check {
        let committed = fs::read_to_string(&header)
            .with_context(|| format!("cannot read {}", header.display()))?;
        ensure!(
            committed == fresh,
            "ebpf/src/layout.h is not fresh: run `cargo xtask ebpf`"
        );
    } else {
        fs::write(&header, fresh).with_context(|| format!("cannot write {}", header.display()))?;
    }
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let object = scratch.path().join("ringperf.bpf.o");
    compile(&package, &object)?;
    let committed = package.join("object/ringperf.bpf.o");
    if !check {
        fs::copy(&object, &committed)
            .with_context(|| format!("cannot write {}", committed.display()))?;
        return Ok(());
    }
    let same = fs::read(&committed).ok() == Some(fs::read(&object)?);
    ensure!(
        same,
        "{} is not what the source gives: run `cargo xtask ebpf`",
        committed.display()
    );
    Ok(())
}

/// Compiles and strips. The paths within are relative to the package, so that the object does not
/// depend on where the tree lies.
fn compile(package: &Path, object: &Path) -> Result<()> {
    let mut clang = Command::new(CLANG);
    clang
        .current_dir(package)
        .args([
            "-g",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
        ])
        .args(["-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86"])
        .arg("-I/usr/include/x86_64-linux-gnu")
        .arg(format!("-fdebug-prefix-map={}=.", package.display()))
        .args(["-c", "src/ringperf.bpf.c", "-o"])
        .arg(object);
    execute(&mut clang)?;
    execute(Command::new(STRIP).arg("-g").arg(object))
}

fn execute(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| {
        format!("cannot run {name}: install clang-14, llvm-14, libbpf-dev and linux-libc-dev")
    })?;
    if !output.status.success() {
        bail!(
            "{name} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// The directory of the ebpf package.
fn package() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).join("ebpf")
}
