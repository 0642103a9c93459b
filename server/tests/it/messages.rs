//! Error messages for invalid input: what was wrong, what is allowed, and which command helps.

use std::{fs, process::Command};

use super::harness::{data_dir, kentd_binary};
use super::operator::{Operator, run_at, run_in};

const SETUP: [&str; 19] = [
    "region create orders --suffix 20",
    "alloc region:orders -n 600000",
    "region create shut --suffix 8",
    "region subdivide shut --by 1 --new old::0 --new new:6:1",
    "region create inner --suffix 10",
    "region delegate inner",
    "region create few --suffix 10",
    "region create mixed --suffix 8 --order scrambled",
    "space create parts --bits 32",
    "space create bare --bits 32",
    "region create bounded --suffix 8",
    "region set bounded --chunk 1:5",
    "region create gapless --suffix 8",
    "region set gapless --strict",
    "region create some --suffix 8 --space parts",
    "alloc region:some@parts -n 100",
    "region create fixed --suffix 10 --zone 0 --space parts",
    "region create mother --suffix 10 --zone 2 --space parts",
    "region subdivide mother --by 2 --new child:4 --space parts",
];

/// A command with a value that is too long to repeat in an error message.
const LONG: &str = "alloc region:orders --request-id aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Commands that the daemon or `kent` refuses, and parts of the message.
const REFUSED: [(&str, &[&str]); 86] = [
    ("alloc region:orders@parts --space default", &["give one of the two, as in `kent alloc region:orders@parts`"]),
    (
        "region shrink few --by 30",
        &[
            "--by: the suffix of region \"few\" has 10 bits",
            "by at most 10, not by 30",
            "(kent region shrink few --space default --by 10)",
        ],
    ),
    (
        "region shrink orders --by 19",
        &["600_000 suffixes are issued", "need 20 bits", "kent region show orders --space default"],
    ),
    (
        "region shrink some --by 40 --space parts",
        &["and what is issued or reserved needs 7, so it can shrink by at most 1, not"],
    ),
    ("region shrink some --by 2 --space parts", &["need 7 bits", "(kent region shrink some --space parts --by 1)"]),
    (
        "region subdivide some --by 1 --abstract --new heir:5:0 --space parts",
        &[
            "needs at least 7 bits: 5 would be too few",
            "(kent region subdivide some --space parts --by 1 --new heir:7:0 --abstract)",
        ],
    ),
    (
        "region expand orders --by 50",
        &["has 8 bits, of which 8 can be used", "(kent region expand orders --space default --by 8)"],
    ),
    (
        "region expand fixed --by 1 --space parts",
        &["no expansion zone, so it cannot grow", "(kent region create NAME --suffix BITS --space parts)"],
    ),
    ("region split fixed --by 1 --space parts", &["has 0 bits, but 1 were", "kent region show fixed --space parts"]),
    (
        "region expand mother --by 2 --space parts",
        &["has 2 bits, but the subregions use the zone", "(kent region tree --filter mother --space parts)"],
    ),
    ("region expand shut --by 1", &["\"old\" inside it", "(kent region show old --space default)"]),
    (
        "region delete shut",
        &["has 2 subregions (\"old\", \"new\"), whose prefixes are 1 bit longer", "kent region tree --filter shut"],
    ),
    ("region delegate shut", &["has 2 subregions (\"old\", \"new\")"]),
    (
        "region split new --by 1 --new x:1",
        &["subregion of \"shut\"", "can be subdivided", "kent region subdivide new --space default --by 1 --new x:1"],
    ),
    ("region expand inner --by 1", &["is delegated", "(kent region ls --space default/inner)"]),
    (
        "region create orders --suffix 4",
        &["already exists in space \"default\"", "kent region show orders --space default"],
    ),
    (
        "region create wide --suffix 100",
        &[
            "the suffix has 100 bits, but an identifier here has 64",
            "kent space free default",
            "for a region that fits now: kent region create wide --suffix 63 --space default",
        ],
    ),
    (
        "region create wide --suffix 60 --zone 9",
        &["suffix and zone together have 69 bits", "kent region create wide --suffix 60 --zone 3 --space default"],
    ),
    (
        "region ask parts --suffix 90 --reason big",
        &["error: the suffix needs 90 bits, but an identifier of space \"default\" has 64"],
    ),
    ("region ask parts --suffix 60 --zone 9 --reason big", &["error: suffix and zone together need 69 bits, but"]),
    ("request decline 1 --reason=", &["error: --reason is empty: say why you decline"]),
    ("region create low --suffix 4 --prefix 0", &["overlaps region \"orders\"", "kent space free default"]),
    ("region create x --suffix 4 --next 99", &["--next: suffix 98 does not fit 4 bits", "below 16"]),
    ("region subdivide orders --by 1 --new q:4:0", &["add --abstract to reserve the others"]),
    ("region subdivide orders --by 1 --new q:4 --new q:4", &["--new: \"q\" is the name of two of the new regions"]),
    ("region subdivide shut --by 1 --new z:4", &["there are only 2 extensions for new regions, and none is left"]),
    (
        "region split orders --by 1 --new q:90",
        &["\"q\" can have at most 27 bits, not 90: its prefix has 37 of the 64 bits"],
    ),
    ("region expand nope --by 1", &["no region \"nope\" in space \"default\"", "(kent region ls --space default)"]),
    ("region unseal nope --space parts", &["(kent region ls --space parts)"]),
    ("region set orders", &["nothing to set", "`kent region set orders --space default --owner shop`"]),
    ("region set mixed --strict", &["never changes", "(kent region create NAME --suffix BITS --space default)"]),
    (
        "region set bounded --strict",
        &["\"bounded\" cannot be strict and have", "(kent region set bounded --space default --strict --no-chunk)"],
    ),
    (
        "region set gapless --chunk 1:5",
        &["cannot be strict and", "(kent region set gapless --space default --no-strict --chunk 1:5)"],
    ),
    (
        LONG,
        &["invalid value 'aaaaaaaaaa", "aaaaaaaaaa...' for '--request-id <ID>': it has 120 bytes; expected 1 to 64"],
    ),
    ("inspect xyz", &["(unrecognised); for example: kent inspect 5Jxqwr73FDS"]),
    (
        "classify 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        &["(`kent space ls` shows", "`kent inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f` explains"],
    ),
    (
        "token rotate 0123456789ab --grace 30d",
        &["'30d' for '--grace <DURATION>': expected whole seconds from 0s to 7d"],
    ),
    ("region set orders --label a=1 --label a=2", &["the label \"a\" is given twice", "--label a=VALUE"]),
    (
        "region set orders --label a/b=c;d",
        &["the value \"c;d\" of the label \"a/b\"", "1 to 63 of a-z A-Z 0-9 - _ . / : @ +"],
    ),
    ("region set orders --label té=c", &["the name \"té\" of a label", "such as team"]),
    ("budget set shop uuidv7 -5", &["'-5' for '<TOTAL>'", "from 0 to 2^64 - 1"]),
    ("budget add shop uuidv7 -5", &["'-5' for '<COUNT>'", "from 1 to 2^64 - 1"]),
    ("audit tail /etc/hostname", &["/etc/hostname contains no audit events", "`kentd --audit FILE`"]),
    ("audit tail /nonexistent", &["cannot read the audit log /nonexistent", "`kentd --audit FILE`"]),
    ("region set orders --auto-expand 101:1", &["1 to 100 percent", "such as 80:2:50"]),
    ("region set orders --chunk -1:5", &["1 <= MIN <= MAX, such as 1:64"]),
    ("region show region:orders", &["write orders;"]),
    ("region show orders@parts", &["write orders --space parts"]),
    ("region id shut 5", &["is closed", "kent region tree --filter shut --space default"]),
    ("region history orders --space parts", &["in space \"parts\"", "kent region ls --space parts"]),
    ("space create parts --bits 8", &["already exists", "kent region ls --space parts"]),
    ("space create q --bits 32 --text uid11", &["--text: UID11 needs a space of 64 bits"]),
    ("space delete default", &["(kent region delete NAME --space default)"]),
    ("space delete default/inner --dry-runs", &["a similar argument exists: '--dry-run'"]),
    ("table export --at 999", &["--at is 999, but must be 1 to "]),
    ("table export --space bare --at 1", &["has no revision for --at", "`kent table export --space bare`"]),
    ("watch --after 999", &["--after is 999, but must be 0 to "]),
    ("watch --after -1", &["expected a revision such as 12"]),
    ("backup /nonexistent/f", &["cannot write the backup to /nonexistent/f", "(mkdir -p /nonexistent)"]),
    ("backup /tmp", &["/tmp: it is not a regular file", "(kent backup kent.backup)"]),
    ("table import /nonexistent", &["cannot read /nonexistent", "`kent table export > table.jsonl`"]),
    ("alloc region:inner", &["is delegated", "kent region ls --space default/inner"]),
    ("alloc serial", &["a series needs a symbol: serial:SYMBOL"]),
    ("alloc region", &["a region needs a name: region:NAME"]),
    ("alloc series:x", &["did you mean serial:x?"]),
    ("alloc regions:x", &["did you mean region:x?"]),
    ("alloc serial:a,b,é", &["it may have A-Z a-z 0-9 . _", "as in serial:ISSN"]),
    (
        "alloc region:few -n 2000",
        &[
            "has 1_024 identifiers left (0 of 1_024 suffixes are issued or reserved), but 2_000 were requested",
            "--by 1",
        ],
    ),
    ("alloc uuidv7 -n 3 --request-id abc --timeout -1s", &["such as 500ms, 30s or 5m", "--timeout 5s"]),
    ("series create INVOICE", &["did you mean serial:INVOICE?"]),
    ("series create uuidv7", &["uuidv7 is a format, not a series; use uid11-fullrand or serial:SYMBOL"]),
    ("region ls --order fill", &["for this, use --sort"]),
    ("region set orders --no-policy cap", &["for this, use --no-cap: kent region set orders --no-cap"]),
    ("audit tail -n -1 x", &["'-1' for '--lines <N>': expected a number of lines, such as 20"]),
    ("audit tail -n many x", &["'many' for '--lines <N>': expected a number of lines, such as 20"]),
    ("clock accept now", &["unexpected argument 'now' found", "for example: kent clock accept"]),
    (
        "budget set shop uuidv7 10",
        &["there is no role \"shop\"", "the budget of a token needs the token's ID (kent token ls)"],
    ),
    ("budget set shop uuidv7 -5", &["expected a number of identifiers from 0 to", "kent budget set shop"]),
    ("budget add shop uuidv7 -5", &["expected a number of identifiers from 1 to", "kent budget add shop"]),
    (
        "token create ci --allow read:* --budget uuidv7=-5",
        &["'uuidv7=-5' for '--budget <RESOURCE=TOTAL>': expected a number of identifiers from 0 to"],
    ),
    (
        "token create ci --allow read:* --expires never",
        &["without --expires, the token ends with your own credential, or never if yours does not expire"],
    ),
    (
        "space create default/asia --bits 20",
        &["kent region create asia --suffix BITS --space default, then kent region"],
    ),
    ("log-level info,", &["\"\" is not a level: use off, error"]),
    (
        "region subdivide orders --by 1 --new q:90:1",
        &["\"q\" can have at most 27 bits, not 90: its prefix has 37 of the"],
    ),
    (
        "inspect --precision h --as uuidv7-draft01 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        &["error: \"h\" is not a valid precision: use s, ms, us or ns"],
    ),
    (
        "inspect --layout us 06086028-01f9-7ad0-8005-000000000001",
        &["error: a layout applies only", "kent inspect --as uuidv7-draft01 --layout us ID"],
    ),
];

#[test]
fn err_a_bad_input_gets_a_message_that_helps() {
    let operator = Operator::new();
    SETUP.iter().for_each(|words| drop(operator.kent(words)));
    for (words, parts) in REFUSED {
        let (code, _, message) = operator.run(words);
        assert!(code == 1 || code == 2, "{words}: {message}");
        assert_eq!(message.matches("error:").count(), 1, "{words}: {message}");
        for part in parts {
            assert!(message.contains(part), "{words}: {message} does not say {part}");
        }
        for field in ["suffix_bits", "by_bits", "at_percent", "min_chunk", "after_revision", "donors:", "  space:"] {
            assert!(!message.contains(field), "{words}: {message}");
        }
    }
}

#[test]
fn err_a_region_without_a_place_gets_the_command_that_makes_one() {
    let operator = Operator::new();
    operator.kent("space create tiny --bits 8");
    operator.kent("region create all --suffix 4 --zone 4 --space tiny");
    let refused = operator.refused("region create more --suffix 4 --space tiny", "NO_FREE_PREFIX");
    let command = "region create more --suffix 4 --space tiny --split-donor all";
    assert!(refused.contains(&format!("kent {command}")), "{refused}");
    operator.kent(command);
}

#[test]
fn err_a_file_that_was_cut_has_one_line_number() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20");
    let table = operator.kent("table export");
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("cut.jsonl");
    fs::write(&file, &table[..table.len() - 20]).expect("written");
    let (code, _, message) = operator.run(&format!("table import {} --yes", file.display()));
    assert!(code == 2 && message.contains("line 2: it ends within"), "{message}");
    assert!(message.contains("export the table again") && message.matches("line ").count() == 1, "{message}");
}

#[test]
fn err_an_import_into_a_space_that_does_not_exist_suggests_what_comes_first() {
    let operator = Operator::new();
    operator.kent("region create inner --suffix 8");
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("table.jsonl");
    fs::write(&file, operator.kent("table export")).expect("written");
    for (space, expected) in [
        ("nope", "`kent space create nope --bits 64"),
        ("nope/x", "there is no space \"nope\"; ListSpaces (kent space ls)"),
        ("default/x", "no region \"x\" in space \"default\"; ListRegions (kent region ls --space default)"),
        ("default/inner", "`kent region delegate inner --space default`"),
    ] {
        let (code, _, message) = operator.run(&format!("table import {} --space {space} --yes", file.display()));
        assert!(code != 0 && message.contains(expected), "{space}: {message}");
    }
}

#[test]
fn ok_a_clock_that_is_trusted_is_not_accepted_again() {
    let (code, shown, message) = Operator::new().run("clock accept");
    assert_eq!((code, message.as_str()), (0, "nothing to accept: the daemon trusts its clock\n"));
    assert!(shown.starts_with("clock "), "{shown}");
}

#[test]
fn err_an_endpoint_that_is_not_a_daemon_is_reported() {
    let operator = Operator::new();
    let http = operator.daemon.http_address();
    let (code, _, message) = run_at(http, "status");
    assert!(code == 1 && message.contains("this is the HTTP port of kentd"), "{message}");
    let (code, _, message) = run_in(&[], &format!("status --endpoint {http}"));
    assert!(code == 1 && message.contains("`kent status --endpoint HOST:7600`"), "{message}");
    let (code, _, message) = run_in(&[("KENT_ENDPOINT", "foo")], "status");
    assert!(code == 2 && message.contains("the value comes from the variable KENT_ENDPOINT"), "{message}");
}

#[test]
fn err_a_space_that_the_command_does_not_name_has_its_origin() {
    let operator = Operator::new();
    let endpoint = ("KENT_ENDPOINT", operator.daemon.grpc_address());
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("kent.toml");
    let config = ("KENT_CLIENT_CONFIG", file.to_str().expect("UTF-8"));
    let context = format!("context set shop --endpoint {} --space gone", endpoint.1);
    for words in [&context, "context use shop"] {
        let (code, _, message) = run_in(&[config], words);
        assert_eq!(code, 0, "{message}");
    }
    for (variables, words, origin) in [
        (&[endpoint, ("KENT_SPACE", "gone")][..], "region ls", Some("the variable KENT_SPACE")),
        (&[config], "region ls", Some("the context (kent context show)")),
        (&[endpoint], "region ls --space gone", None),
        (&[config], "region ls --space gone", None),
    ] {
        let (code, _, message) = run_in(variables, words);
        assert!(code == 1 && message.contains("there is no space \"gone\""), "{words}: {message}");
        let expected = origin.map(|origin| format!("the space comes from {origin}"));
        assert_eq!(message.lines().map(str::trim).find(|line| line.contains("comes from")), expected.as_deref());
    }
}

#[test]
fn err_a_context_that_a_variable_names_has_its_origin() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("kent.toml");
    let config = ("KENT_CLIENT_CONFIG", file.to_str().expect("UTF-8"));
    let expected = "there is no context \"staging\"; there are none yet; create one with `kent context set NAME --endpoint HOST:PORT`";
    for (variables, words, is_in_variable) in [
        (&[config, ("KENT_CONTEXT", "staging")][..], "status", true),
        (&[config, ("KENT_CONTEXT", "staging")], "context show", true),
        (&[config], "status --context staging", false),
    ] {
        let (code, _, message) = run_in(variables, words);
        assert!(code == 2 && message.contains(expected), "{words}: {message}");
        assert_eq!(message.contains("; the name comes from the variable KENT_CONTEXT"), is_in_variable, "{message}");
    }
}

#[test]
fn err_a_contexts_file_of_a_variable_has_its_origin() {
    let folder = tempfile::tempdir().expect("a directory");
    let (code, _, message) = run_in(&[("KENT_CLIENT_CONFIG", folder.path().to_str().expect("UTF-8"))], "status");
    assert!(code == 2 && message.contains("the path comes from the variable KENT_CLIENT_CONFIG"), "{message}");
}

#[test]
fn err_an_external_region_needs_a_declaration_before_it_shrinks() {
    let operator = Operator::new();
    operator.kent("region create staff --suffix 20 --order external");
    let refused = operator.refused("region shrink staff --by 5", "USE_UNKNOWN");
    let command = "kent region set staff --space default --next ";
    assert!(refused.contains(&format!("`{command}N` declares that all numbers below N may be in use")), "{refused}");
    operator.kent("region set staff --space default --next 100");
    operator.kent("region shrink staff --by 5");
}

#[test]
fn ok_regions_of_all_spaces_are_in_one_table() {
    let operator = Operator::new();
    operator.kent("region create emea --suffix 20");
    operator.kent("region delegate emea");
    operator.kent("region create orders --suffix 8 --space default/emea");
    let shown = operator.kent("region ls -A");
    let column = shown.lines().next().expect("headings").find("PREFIX").expect("a column");
    for line in shown.lines() {
        assert!(line.as_bytes()[column - 1] == b' ' && line.as_bytes()[column] != b' ', "{shown}");
    }
}

#[test]
fn err_a_limit_on_open_files_is_named() {
    let data = data_dir();
    let mut shell = Command::new("sh");
    let start = "ulimit -n 16; exec \"$0\" --data \"$1\" --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let output = shell.args(["-c", start]).arg(kentd_binary()).arg(data.path()).output().expect("kentd runs");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(message.contains("raise the limit on open files (ulimit -n, LimitNOFILE)"), "{message}");
}

#[test]
fn err_a_variable_of_the_daemon_is_named() {
    for (variable, value) in
        [("KENT_THREADS", "x"), ("KENT_THREADS", "0"), ("KENT_WINDOW", "1s"), ("KENT_DATA", ""), ("KENT_AUDIT", "")]
    {
        let mut kentd = Command::new(kentd_binary());
        let output = kentd.env(variable, value).output().expect("kentd runs");
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(message.contains(&format!("the value comes from the variable {variable}")), "{message}");
    }
}

/// An empty path would mean the working directory.
#[test]
fn err_an_empty_path_in_the_settings_file_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("kentd.toml"), "data = \"\"\n").expect("written");
    let mut kentd = Command::new(kentd_binary());
    kentd.args("--config kentd.toml --listen 127.0.0.1:0 --http 127.0.0.1:0".split(' ')).current_dir(folder.path());
    let output = kentd.output().expect("kentd runs");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(message.contains("data is empty, but must be a directory, such as data = \"/var/lib/kent\""), "{message}");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1, "only the settings");
}

#[test]
fn err_a_misspelled_variable_of_the_daemon_causes_a_warning() {
    let mut kentd = Command::new(kentd_binary());
    // The daemon exits, because it cannot bind this address.
    kentd.args("--store memory --listen 192.0.2.1:1 --insecure --http 127.0.0.1:0".split(' '));
    let output = kentd.env("KENT_LISEN", "127.0.0.1:1").output().expect("kentd runs");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(message.contains("KENT_LISEN") && message.contains("did you mean KENT_LISTEN?"), "{message}");
}

#[test]
fn err_a_flag_of_the_daemon_is_refused_once_with_its_range() {
    for (words, parts) in [
        ("--threads -1", &["invalid value '-1' for '--threads <COUNT>'", "1 to 1_024"][..]),
        ("--grace -1s", &["--grace: Time for requests in flight", "0s to 1h [default: 10s]"]),
        ("--listen foo", &["[default: 127.0.0.1:7600]", "for example: kentd --data"]),
        ("--listen 47720", &["expected IP:PORT, such as 127.0.0.1:7600", "host names are not accepted"]),
        ("--http localhost:47720", &["expected IP:PORT, such as 127.0.0.1:7600", "host names are not accepted"]),
        ("--packed-bytes 2MB", &["expected a whole number without a unit", "16 to 1_073_741_824 [default: 2_097_152]"]),
        ("--lease-count 1e9", &["expected a whole number without a unit, such as 1_000_000"]),
        ("--lease-count 1_", &["expected a whole number without a unit, such as 1_000_000"]),
        ("--threads 0", &["threads is 0, but must be 1 to 1_024"]),
        ("--window 3", &["expected a duration with its unit, such as 500ms, 30s or 5m", "2s to 1h [default: 1m]"]),
        ("--thread 5", &["a similar argument exists: '--threads'", "Usage: kentd [OPTIONS]"]),
        ("serve", &["kentd needs no command to serve", "for example: kentd --data /var/lib/kent\n"]),
        ("--data z1 start", &["unrecognized subcommand 'start'", "for example: kentd --data z1\n"]),
        (
            "--data z1 restore x",
            &["the options of `kentd restore` follow the word restore", "for example: kentd restore --data z1 x\n"],
        ),
        ("--chunk-min 2_000_000", &["chunk-min is 2_000_000, but must be 1 to chunk-max (1_048_576)"]),
        ("restore nosuch --data d", &["there is no backup or store at nosuch: name a backup file (kent backup FILE)"]),
        (
            "restore nosuch --data d --clock-error -1s",
            &["'-1s'", "expected a duration with its unit, such as 500ms, 30s or 5m"],
        ),
        ("restore nosuch --data /etc/hostname", &["/etc/hostname is not a directory"]),
        ("restore b --data d --floor region:r=-2", &["\"-2\" is not a whole number from 0 to 2^128, such as 4712"]),
        ("restore b --data d --floor x", &["a floor is SOURCE=N", "for example: kentd restore /old/kent-data"]),
        (
            "--store memory --listen 192.0.2.1:1 --insecure --http 127.0.0.1:0",
            &["cannot listen on 192.0.2.1:1: ", "; choose another with --listen"],
        ),
        (
            "--listen 127.0.0.1:5 --listen 127.0.0.1:6",
            &["--listen takes a list: write --listen 127.0.0.1:5,127.0.0.1:6"],
        ),
        ("--audit-required --store memory", &["audit-required needs audit (--audit FILE)"]),
        (
            "--check-config --log kentd=verbose",
            &["log is \"kentd=verbose\", but \"kentd=verbose\" is not a level", "`kentd --log info,tonic=debug`"],
        ),
        (
            "--check-config --metrics-regions orders;parts",
            &["';' is not one of a-z A-Z 0-9 - _ .", "write patterns with commas between them, such as orders,parts"],
        ),
        (
            "--check-config --advertise 0.0.0.0:7600",
            &["advertise is \"0.0.0.0:7600\", but must be an address that clients on other machines can connect to"],
        ),
        (
            "--store etcd://kent:s3cret@127.0.0.1:1/kent",
            &["'etcd://...@127.0.0.1:1/kent'", "use --store-user and --store-password-file"],
        ),
        (
            "--check-config --store etcd://127.0.0.1:1/kent --store-user kent --store-password-file /dev/null",
            &["store-password-file is /dev/null, which is empty, but must be a file with the password of store-user"],
        ),
        ("--tls-ca ca.pem", &["--tls-client-ca names the CAs that sign the certificates of callers"]),
        ("--check-config --log info;kentd=debug", &["\"info;kentd=debug\" is not a level"]),
        ("--data ~/kent", &["data is ~/kent, but must be a path without ~"]),
        ("--restore a.bak", &["restore is a command, without hyphens", "for example: kentd restore kent.backup"]),
        ("--listen 127.0.0.1:5 --http 127.0.0.1:5", &["listen and http are both 127.0.0.1:5: give two ports"]),
    ] {
        let output = Command::new(kentd_binary()).args(words.split(' ')).output().expect("kentd runs");
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success(), "{words}: {message}");
        let errors = message.lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!(errors, 1, "{words}: {message}");
        assert!(!message.contains("cannot start"), "{words}: {message}");
        parts.iter().for_each(|part| assert!(message.contains(part), "{words}: {message} does not say {part}"));
        assert!(!message.contains("s3cret") && !message.contains("tls-crl"), "{words}: {message}");
    }
}

#[test]
fn err_an_option_of_the_daemon_names_the_daemon() {
    let help = Command::new(kentd_binary()).arg("--help").output().expect("kentd runs");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '=', '[']).next());
    let options: Vec<_> = options.collect();
    assert!(options.len() > 40, "{options:?}");
    for option in options {
        let (_, _, said) = run_in(&[], &format!("status --{option} x"));
        assert!(said.contains(&format!("--{option} is a setting of the daemon, `kentd --{option}`")), "{said}");
    }
}
