//! The machine: a kernel, and a first program that brings up `lo`, runs ringperf and powers off.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::expected::Kernel;
use crate::exec::{Show, run};

/// Longest that one machine may live. Emulated it takes 15 to 40 s.
const LIMIT: Duration = Duration::from_secs(300);
/// Longest that making the disk may take.
const STEP: Duration = Duration::from_secs(60);

/// What stands around each document in what the machine prints.
pub const BEGIN: &str = "ringperf-begin";
/// Followed by the exit code.
pub const END: &str = "ringperf-end";

/// What the machine does, each a command line of ringperf: transactions with every probe, then
/// every kind of traffic by the ring.
pub const RUNS: [&str; 3] = [
    "--probes on --proto tcp,udp --test rr --duration 1s --warmup 200ms",
    "--probes off --engine io_uring --test stream,reverse,bidir,rr,crr --size 1K --flows 2 \
     --duration 300ms --warmup 100ms",
    "--probes off --engine io_uring --proto udp --test stream,rr --size 100 --flows 2 \
     --rate 1000/total --duration 300ms --warmup 100ms",
];

/// Makes the machine's root, a compressed archive.
///
/// # Errors
///
/// Where a file that goes into it is missing, or it cannot be written.
pub fn disk(scratch: &Path, program: &Path) -> Result<PathBuf> {
    let root = scratch.join("root");
    for folder in ["bin", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(busybox()?, root.join("bin/busybox"))?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(root.join("bin/ringperf")).arg(program);
    ensure!(run(strip, STEP, Show::Yes)?.success, "strip failed");
    for library in libraries(program)? {
        let to = root.join(library.strip_prefix("/").unwrap_or(&library));
        fs::create_dir_all(to.parent().unwrap_or(&root))?;
        fs::copy(&library, to)?;
    }
    let init = root.join("init");
    fs::write(&init, script())?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let disk = scratch.join("root.cpio.gz");
    let pack = "find . | cpio --quiet -o -H newc | gzip -1";
    let mut shell = Command::new("bash");
    shell
        .current_dir(&root)
        .args(["-o", "pipefail", "-c"])
        .arg(format!("{pack} > {}", disk.display()));
    ensure!(run(shell, STEP, Show::Yes)?.success, "cpio failed");
    Ok(disk)
}

fn script() -> String {
    let mut script = String::from(
        "#!/bin/busybox sh\n\
         /bin/busybox mount -t proc proc /proc\n\
         /bin/busybox mount -t sysfs sys /sys\n\
         /bin/busybox mount -t devtmpfs dev /dev\n\
         /bin/busybox ip link set lo up\n",
    );
    for arguments in RUNS {
        script.push_str(&format!(
            "echo {BEGIN}\n/bin/ringperf run --json - --quiet {arguments}\necho \"{END} $?\"\n"
        ));
    }
    script.push_str("/bin/busybox poweroff -f\n");
    script
}

fn busybox() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("busybox"))
        .find(|file| file.is_file())
        .context("busybox is not on the path (apt-get install busybox-static)")
}

/// The shared libraries of a program and its loader.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let listed = run(ldd, STEP, Show::No)?;
    ensure!(listed.success, "ldd: {}", listed.stderr);
    Ok(paths(&listed.stdout))
}

/// The paths of what ldd prints.
fn paths(listed: &str) -> Vec<PathBuf> {
    let words = listed.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Runs a machine to its end. Gives what it printed.
///
/// # Errors
///
/// Where QEMU fails or the machine does not power off in time.
pub fn boot(kernel: &Kernel, image: &Path, disk: &Path) -> Result<String> {
    let mut qemu = Command::new("qemu-system-x86_64");
    // Emulated, so that it works where there is no KVM or no right to it.
    let cpu = if kernel.cx16 { "max" } else { "max,-cx16" };
    qemu.args(["-accel", "tcg", "-cpu", cpu, "-smp", "1", "-m", "768"])
        .args(["-nographic", "-no-reboot", "-net", "none"])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(disk)
        .args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]);
    let printed = run(qemu, LIMIT, Show::No)?;
    ensure!(printed.success, "qemu: {}", printed.stderr);
    Ok(printed.stdout.replace('\r', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x7f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = ["/lib/x/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths(listed), expected.map(PathBuf::from));
    }

    #[test]
    fn the_machine_runs_everything_and_powers_off() {
        let script = script();
        assert_eq!(script.matches(BEGIN).count(), RUNS.len());
        assert!(script.starts_with("#!/bin/busybox sh\n"));
        assert!(script.ends_with("poweroff -f\n"));
    }
}
