//! Wrong command lines of every kind: exit 2, the flag by name, what is allowed, one document;
//! and a help that says of every flag what it takes.

use clap::CommandFactory;

use super::{Asked, refused, type_line, type_words};
use crate::cli::Cli;
use crate::record::{Run, exit};

/// A line, the flag that its message names, and what it says is allowed.
const WRONG: &[(&str, &str, &str)] = &[
    // Numbers: none, negative, zero, too large, of another script, no number at all.
    ("run h --flows", "--flows", "value is required"),
    ("run h --flows 0", "--flows 0", "from 1 to 1000000"),
    ("run h --flows -1", "--flows -1", "no value is negative"),
    ("run h --bytes -5M", "--bytes -5M", "no value is negative"),
    ("run h -t -1", "-t -1", "no value is negative"),
    (
        "run h --busy-poll -1",
        "--busy-poll -1",
        "no value is negative",
    ),
    (
        "run h --flows 99999999",
        "--flows 99999999",
        "from 1 to 1000000",
    ),
    ("run h --flows 4294967296", "--flows", "too large"),
    ("run h --flows \u{661}", "--flows", "a whole number such as"),
    ("run h --flows +1", "--flows", "a whole number such as"),
    ("run h --workers two", "--workers", "a whole number such as"),
    ("run h --depth 65537", "--depth 65537", "from 1 to 65536"),
    ("run h --samples 0", "--samples 0", "from 1 to 1000000"),
    ("run h --dscp 300", "--dscp", "from 0 to 63"),
    ("run h --port 0", "--port 0", "from 1 to 65535"),
    ("run h --mss 70000", "--mss 70000", "from 88 to 32767"),
    ("run h --gso 0 -u", "--gso 0", "from 1 to 128"),
    // Amounts and times.
    ("run h --bytes 0", "--bytes 0", "from 1 to 8192T"),
    ("run h --size 1T", "--size 1T", "from 1 to 64M"),
    ("run h --size 70000 -u", "--size 70000", "at most 65507"),
    ("run h --size 1KB", "--size", "write bytes"),
    ("run h --duration 0", "--duration 0s", "from 10ms to 365d"),
    (
        "run h --duration 5x",
        "--duration",
        "ns, us, ms, s, m, h or d",
    ),
    ("run h --duration 1000000000d", "--duration", "too large"),
    ("run h --interval 1ms", "--interval 1ms", "from 100ms"),
    ("run h --rate 1e400", "--rate", "/flow or /total"),
    ("run h --bitrate 0", "--bitrate 0", "from 1 to 1000T"),
    // Lists: empty places, the same twice, backwards.
    ("run h --flows 1,,2", "--flows", "in a list 1,100"),
    ("run h --flows 1,2,1", "--flows 1", "twice"),
    ("run h --proto tcp,tcp", "--proto tcp", "twice"),
    ("run h --size 1K,1024", "--size 1K", "twice"),
    ("run h --test rr --rate 1000,1K", "--rate 1K/total", "twice"),
    ("run h --cpus 1,1", "--cpus", "twice"),
    ("run h --cpus 5-2", "--cpus", "backwards"),
    (
        "run h --source-ports 9-5",
        "--source-ports",
        "A-B from 1 to 65535",
    ),
    // Words.
    ("run h --proto sctp", "--proto", "choose from tcp, udp"),
    (
        "run h --test stream,nope",
        "--test",
        "stream, reverse, bidir, rr, crr",
    ),
    ("run h --nodelay maybe", "--nodelay", "on or off"),
    ("run h --family 5", "--family", "4, 6"),
    // Hosts and addresses.
    ("run h:0", "HOST", "from 1 to 65535"),
    ("run ::1:5390", "HOST", "[::1]:5390"),
    ("run ::1:5390 -p 5390", "HOST", "[::1:5390]"),
    ("run [::1", "HOST", "bracket"),
    (
        "run [::1]:5 -p 6",
        "--port 6 with HOST [::1]:5",
        "two ports",
    ),
    ("run h --bind 10.0.0.1:5", "--bind", "without a port"),
    ("run h --family 6 -B 127.0.0.1", "--family 6", "not IPv6"),
    // Exclusive flags, and flags of the other command.
    (
        "run h --bytes 1M -t 5",
        "--duration 5s with --bytes 1M",
        "only one",
    ),
    ("run h -u --proto tcp", "--proto", "cannot be used with"),
    ("run h --one-off", "--one-off", "Usage"),
    ("serve --flows 5", "--flows", "Usage"),
    (
        "serve --max-sessions 0",
        "--max-sessions 0",
        "from 1 to 10000",
    ),
    (
        "serve --max-flows -2",
        "--max-flows -2",
        "no value is negative",
    ),
    (
        "serve --allow 10.0.0.0/99",
        "--allow",
        "more than the address has bits",
    ),
    ("serve --data-port 9-5", "--data-port", "ports"),
    ("serve --bind nope", "--bind", "10.0.0.1 or ::1"),
];

#[test]
fn every_kind_of_wrong_line_names_its_flag_and_what_is_allowed() {
    for (line, flag, allowed) in WRONG {
        let said = refused(line).join("\n");
        for wanted in [flag, allowed] {
            assert!(said.contains(wanted), "{line}: no {wanted:?} in {said}");
        }
        if line.starts_with("run") {
            let (asked, out, err) = type_line(&format!("{line} --json -"));
            assert!(matches!(asked, Asked::Nothing(exit::USAGE)), "{line}");
            let run: Run = serde_json::from_str(&out).unwrap();
            let error = run.error.unwrap();
            assert_eq!((error.exit_code, error.text.as_str()), (2, err.trim_end()));
        }
    }
    // A letter and its value, and what only looks like a number.
    for words in [["run", "-1"], ["run", "-9"]] {
        let (asked, _, err) = type_words(&words);
        assert!(matches!(asked, Asked::Nothing(exit::USAGE)), "{words:?}");
        assert!(err.contains(words[1]), "{err}");
    }
}

/// Every flag with a value says its default; one with bounds says them as its error does.
#[test]
fn the_help_says_what_every_flag_takes() {
    let cli = Cli::command();
    for command in cli.get_subcommands() {
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            if !arg.get_action().takes_values() {
                continue;
            }
            let long = arg.get_long_help().or(arg.get_help());
            let help = long.map(ToString::to_string).unwrap_or_default();
            let alias = help.contains("The same as");
            let default = help.contains("default") || !arg.get_default_values().is_empty();
            assert!(alias || default, "{} {id}: {help}", command.get_name());
            if let Some(range) = bounds(command.get_name(), arg.get_long()) {
                assert!(help.contains(&range), "{id}: no {range:?} in {help}");
            }
        }
    }
}

/// What the error on a value that is too small, or too large, says of a flag.
fn bounds(command: &str, flag: Option<&str>) -> Option<String> {
    let flag = flag?;
    let host = if command == "run" { " h" } else { "" };
    for value in ["0", "999999999", "9000T", "9000d"] {
        let (_, _, err) = type_line(&format!("{command}{host} --{flag} {value}"));
        let lines = err
            .lines()
            .filter(|line| line.contains(&format!("--{flag} ")));
        let said = lines
            .filter_map(|line| line.split_once("it must be from "))
            .next();
        if let Some((_, range)) = said {
            return Some(range.trim_end_matches(" per second").to_string());
        }
    }
    None
}

/// All of the documented codes, in both helps.
#[test]
fn the_help_lists_every_exit_code() {
    let of = |command| type_words(&[command, "--help"]).1;
    let (run, serve) = (of("run"), of("serve"));
    let run = &run[run.find("Exit codes").unwrap()..];
    for code in [
        exit::OK,
        exit::THRESHOLD,
        exit::USAGE,
        exit::NO_DATA,
        exit::FAILED,
        exit::HOST,
        exit::INTERRUPTED,
        exit::TERMINATED,
    ] {
        assert!(run.contains(&format!(" {code} ")), "{code}: {run}");
    }
    for code in ["0", "2", "4", "5", "130", "143"] {
        assert!(serve.contains(&format!(" {code} ")), "{code}: {serve}");
    }
}
