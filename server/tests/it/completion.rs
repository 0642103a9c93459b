//! Shell completion of names, which queries the daemon.

use std::process::{Command, Stdio};

use super::operator::{Operator, keep_settings, kent_binary};

/// A daemon with regions in two spaces, and a series.
fn operator() -> Operator {
    let operator = Operator::new();
    for command in [
        "region create orders --suffix 20",
        "region create orders-eu --suffix 20",
        "region create invoices --suffix 20",
        "space create parts --bits 32",
        "region create bolts --suffix 8 --space parts",
        "series create serial:GBP",
        "layout create tweets --preset snowflake-twitter",
    ] {
        operator.kent(command);
    }
    operator
}

/// Returns the completions of a command line's last word, which is empty if the line ends with a space.
fn complete(operator: &Operator, shell: &str, line: &str) -> Vec<String> {
    let words: Vec<_> = line.split(' ').collect();
    let mut command = Command::new(kent_binary());
    keep_settings(&mut command);
    command.env("KENT_COMPLETE", shell).env("KENT_ENDPOINT", operator.daemon.grpc_address());
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).env("_CLAP_IFS", "\n").arg("--").args(&words);
    output_of(&mut command, line).lines().map(str::to_owned).collect()
}

/// Returns what a completion prints, which says nothing on standard error.
///
/// A completion waits only briefly for the daemon, so it may be empty on a busy machine. Then it is tried again.
fn output_of(command: &mut Command, line: &str) -> String {
    for _ in 0..ATTEMPTS {
        let output = command.stdin(Stdio::null()).output().expect("the command runs");
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""), "{line}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        if !text.trim().is_empty() {
            return text;
        }
    }
    String::new()
}

/// The maximum number of attempts at a completion.
const ATTEMPTS: usize = 10;

#[test]
fn ok_names_are_completed_from_the_daemon() {
    let operator = operator();
    for (line, expected) in [
        ("kent region show o", &["orders", "orders-eu"][..]),
        ("kent region get inv", &["invoices"]),
        ("kent region expand --by 2 i", &["invoices"]),
        ("kent region show --space parts b", &["bolts"]),
        ("kent region show --space=parts b", &["bolts"]),
        ("kent region show --space parts o", &[]),
        ("kent region create o", &[]),
        ("kent region rename orders o", &[]),
        ("kent region ls --space p", &["parts"]),
        ("kent region ls --space=p", &["--space=parts"]),
        ("kent space free p", &["parts"]),
        ("kent space delete p", &["parts"]),
        ("kent alloc region:o", &["region:orders", "region:orders-eu"]),
        ("kent alloc reg", &["region:invoices", "region:orders", "region:orders-eu"]),
        ("kent alloc --space parts region:", &["region:bolts"]),
        ("kent alloc region:bolts@p", &["region:bolts@parts"]),
        ("kent alloc lay", &["layout:tweets"]),
        ("kent layout show t", &["tweets"]),
        ("kent layout create t", &[]),
        ("kent layout create x --preset snowflake-t", &["snowflake-twitter"]),
        ("kent check --as lay", &["layout:tweets"]),
        ("kent inspect --as snowflake-s", &["snowflake-sonyflake"]),
        ("kent check --space p", &["parts"]),
        ("kent alloc uuidv7-", &["uuidv7-draft01-ms", "uuidv7-draft01-us", "uuidv7-draft01-ns"]),
        ("kent regi", &["region"]),
    ] {
        for shell in ["bash", "fish", "zsh"] {
            let unescaped = |word: &String| match shell {
                "zsh" => word.replace("\\:", "\u{0}").split(':').next().unwrap_or_default().replace('\u{0}', ":"),
                _ => word.split('\t').next().unwrap_or_default().to_owned(),
            };
            let mut found: Vec<_> = complete(&operator, shell, line).iter().map(unescaped).collect();
            let mut expected = expected.to_vec();
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{shell}: {line}");
        }
    }
    let series = complete(&operator, "bash", "kent series forget ser");
    assert!(series.len() == 1 && series[0].ends_with(":GBP"), "{series:?}");
}

#[test]
fn ok_bash_completes_words_that_it_splits_itself() {
    let operator = operator();
    // Each row has a command line, its words as bash splits them at COMP_WORDBREAKS, and the completions of the last
    // word.
    for (line, words, expected) in [
        ("kent region show inv", &["kent", "region", "show", "inv"][..], "invoices"),
        ("kent alloc region:inv", &["kent", "alloc", "region", ":", "inv"], "invoices"),
        ("kent alloc region:", &["kent", "alloc", "region", ":"], "invoices orders orders-eu"),
        ("kent alloc region:bolts@pa", &["kent", "alloc", "region", ":", "bolts", "@", "pa"], "parts"),
        ("kent region ls --space=pa", &["kent", "region", "ls", "--space", "=", "pa"], "parts"),
        ("kent region show --space parts ", &["kent", "region", "show", "--space", "parts", ""], "bolts"),
        (
            "kent region seal --reason 'two words' inv",
            &["kent", "region", "seal", "--reason", "'two words'", "inv"],
            "invoices",
        ),
    ] {
        let script = r#"
            source <(kent completions bash)
            COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'
            COMP_LINE=$1; COMP_POINT=${#1}; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _kent
            printf '%s\n' "${COMPREPLY[@]}" | grep -v ^- | sort | paste -sd ' '
        "#;
        let mut bash = Command::new("bash");
        keep_settings(&mut bash);
        let path = format!(
            "{}:{}",
            kent_binary().parent().expect("in a directory").display(),
            std::env::var("PATH").expect("a path")
        );
        bash.env("PATH", path).env("KENT_ENDPOINT", operator.daemon.grpc_address());
        bash.args(["--norc", "-c", script, "bash", line]).args(words);
        assert_eq!(output_of(&mut bash, line).trim(), expected, "{line}");
    }
}

#[test]
fn ok_without_a_daemon_the_rest_is_completed_silently() {
    let operator = operator();
    // This server accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_address = silent.local_addr().expect("an address").to_string();
    for endpoint in ["127.0.0.1:1", "not an address", &silent_address] {
        let endpoint = endpoint.replace(' ', "_");
        assert_eq!(complete(&operator, "bash", &format!("kent region show --endpoint {endpoint} o")), [""; 0]);
        let options = complete(&operator, "bash", &format!("kent region show --endpoint {endpoint} --dry"));
        assert_eq!(options, [""; 0], "`kent region show` has no option that begins with --dry");
        let options = complete(&operator, "bash", &format!("kent region seal --endpoint {endpoint} --dry"));
        assert_eq!(options, ["--dry-run"]);
    }
}
