use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

/// A canned `/proc` in a directory of its own.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ringperf-cpu-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).expect("a directory for the tree");
        Tree { root }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("in the tree")).expect("its directory");
        fs::write(path, text).expect("a file of the tree");
    }

    /// `cpus`: user nice system irq softirq steal of each.
    fn stat(&self, cpus: &[[u64; 6]]) {
        let mut text = "cpu  1 2 3 4 5 6 7 8 0 0\n".to_string();
        for (cpu, [user, nice, system, irq, softirq, steal]) in cpus.iter().enumerate() {
            text +=
                &format!("cpu{cpu} {user} {nice} {system} 9999 99 {irq} {softirq} {steal} 0 0\n");
        }
        self.write("proc/stat", &(text + "intr 5 4 3\nctxt 99\n"));
    }

    fn task(&self, pid: &str, name: &str, parent: u32, user: u64, system: u64) {
        let stat =
            format!("7 ({name}) S {parent} 0 0 0 -1 2129984 1 2 3 4 {user} {system} 9 9 20 0");
        self.write(&format!("proc/{pid}/stat"), &stat);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A directory left in the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Reads now as if it were at another time.
fn at(monitor: &CpuMonitor, origin: Instant, seconds: f64) -> Reading {
    let mut reading = monitor.reading().expect("a tree with proc/stat");
    reading.at = origin + Duration::from_secs_f64(seconds);
    reading
}

/// A window of 10 s after a baseline of 2 s in which CPU 0 had 4 ticks of user and 2 of system.
fn ten_seconds(tree: &Tree) -> CpuReport {
    let origin = Instant::now();
    tree.stat(&[[100, 0, 50, 0, 0, 0], [0; 6]]);
    tree.task("self", "a (strange) name", 1, 10, 10);
    tree.task("15", "ksoftirqd/0", 2, 0, 5);
    tree.task("16", "napi/eth0-3", 2, 0, 0);
    tree.task("17", "ksoftirqd/9", 1, 77, 77);
    tree.task("18", "kworker/0:1", 2, 0, 0);
    let mut monitor = CpuMonitor::new(&tree.root);
    let first = at(&monitor, origin, 0.0);
    tree.stat(&[[104, 0, 52, 0, 0, 0], [0; 6]]);
    monitor.baseline = Some(at(&monitor, origin, 2.0).since(&first));
    let begun = at(&monitor, origin, 3.0);
    tree.stat(&[[404, 20, 252, 10, 130, 3], [0, 0, 40, 0, 60, 0]]);
    tree.task("self", "a (strange) name", 1, 110, 140);
    tree.task("15", "ksoftirqd/0", 2, 0, 35);
    tree.task("16", "napi/eth0-3", 2, 0, 20);
    tree.task("17", "ksoftirqd/9", 1, 999, 999);
    let window = at(&monitor, origin, 13.0).since(&begun);
    monitor.report(&window)
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn the_window_is_split_and_the_baseline_taken_off() {
    let report = ten_seconds(&Tree::new());
    assert_eq!((report.method.as_str(), report.missing), ("tick", None));
    // 10 s have 20 ticks of user and 10 of system when idle.
    near(report.user_s, 3.0);
    near(report.system_s, 2.3);
    near(report.softirq_s, 1.9);
    near(report.irq_s, 0.1);
    near(report.total_s, 7.3);
    near(report.steal_s, 0.03);
    near(report.softirq_threads_s, 0.5);
    // 320 user less our 100; 240 system less our 130 and 50 of the threads.
    near(report.foreign_s, 2.8);
    assert_eq!(report.cpus.len(), 2);
    let first = report.cpus[0];
    near(Some(first.user_s), 3.0);
    near(Some(first.system_s), 1.9);
    near(Some(first.softirq_s), 1.3);
    near(Some(report.cpus[1].system_s), 0.4);
    near(Some(report.cpus[1].softirq_s), 0.6);
}

#[test]
fn without_a_baseline_nothing_is_taken_off_and_noise_is_never_negative() {
    let tree = Tree::new();
    let origin = Instant::now();
    tree.stat(&[[0; 6]]);
    let mut monitor = CpuMonitor::new(&tree.root);
    let begun = at(&monitor, origin, 0.0);
    tree.stat(&[[7, 0, 0, 0, 0, 0]]);
    let busy = at(&monitor, origin, 1.0).since(&begun);
    near(monitor.report(&busy).user_s, 0.07);
    monitor.baseline = Some(busy);
    let same = at(&monitor, origin, 2.0);
    let quiet = at(&monitor, origin, 12.0).since(&same);
    near(monitor.report(&quiet).user_s, 0.0);
    near(monitor.report(&quiet).total_s, 0.0);
}

#[test]
fn a_window_of_fewer_than_100_ticks_has_no_figure_and_says_why() {
    let tree = Tree::new();
    tree.stat(&[[0; 6]]);
    let mut monitor = CpuMonitor::new(&tree.root);
    monitor.set_spinning(true);
    let origin = Instant::now();
    let begun = at(&monitor, origin, 0.0);
    let short = monitor.report(&at(&monitor, origin, 0.99).since(&begun));
    assert_eq!(
        short.missing.as_deref(),
        Some("the window of 0.99 s has 99 clock ticks of CPU accounting; 100 are needed",)
    );
    assert_eq!(
        (short.total_s, short.cpus.len(), short.spinning),
        (None, 0, true)
    );
    let enough = monitor.report(&at(&monitor, origin, 0.9996).since(&begun));
    assert_eq!(enough.missing, None);
    assert_eq!(enough.total_s, Some(0.0));
}

#[test]
fn the_method_is_precise_only_where_the_busy_cpus_track_context() {
    for (list, method) in [("0-1\n", "precise"), ("1\n", "tick"), ("(null)\n", "tick")] {
        let tree = Tree::new();
        tree.write("sys/devices/system/cpu/nohz_full", list);
        assert_eq!(ten_seconds(&tree).method, method, "nohz_full {list}");
    }
}

#[test]
fn a_cpu_that_came_online_within_the_window_is_left_out() {
    let tree = Tree::new();
    tree.stat(&[[0; 6]]);
    let monitor = CpuMonitor::new(&tree.root);
    let origin = Instant::now();
    let begun = at(&monitor, origin, 0.0);
    tree.stat(&[[50, 0, 0, 0, 0, 0], [900, 0, 0, 0, 0, 0]]);
    let report = monitor.report(&at(&monitor, origin, 5.0).since(&begun));
    assert_eq!(report.cpus.len(), 1);
    near(report.total_s, 0.5);
    // Nor are there threads or a process of ours in this tree.
    assert_eq!((report.softirq_threads_s, report.foreign_s), (None, None));
}

#[test]
fn a_root_without_proc_says_what_is_missing() {
    let mut monitor = CpuMonitor::new(Path::new("/nonexistent"));
    monitor.baseline();
    monitor.baseline_end();
    monitor.begin();
    let report = monitor.end();
    let missing = report.missing.expect("no figures");
    assert!(missing.contains("/nonexistent/proc/stat"), "{missing}");
    assert_eq!(report.total_s, None);
}

#[test]
fn an_end_without_a_beginning_has_no_figures() {
    let mut monitor = CpuMonitor::new(Path::new("/"));
    assert!(monitor.end().missing.is_some());
}

#[test]
fn this_machine_is_seen_to_work() {
    let mut monitor = CpuMonitor::new(Path::new("/"));
    monitor.begin();
    let until = Instant::now() + Duration::from_millis(1_050);
    let mut turns = 0u64;
    while Instant::now() < until {
        turns = std::hint::black_box(turns + 1);
    }
    let report = monitor.end();
    assert_eq!(report.missing, None);
    assert!(report.window_s > 1.0);
    // Shared machines give less than a whole CPU; a quarter of one is seen on any.
    assert!(
        report.total_s.is_some_and(|total| total > 0.25),
        "{report:?}"
    );
    assert!(!report.cpus.is_empty());
}
