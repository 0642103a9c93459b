//! Tokens and roles on the command line, against a real daemon.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;

use super::{
    auth::guarded,
    harness::{Daemon, data_dir},
    operator::{kent_in, run_in},
};

/// A daemon that requires credentials, and a directory with the token of an administrator.
struct Guarded {
    daemon: Daemon,
    dir: tempfile::TempDir,
}

impl Guarded {
    /// Creates the first token while the daemon requires none, then restarts the daemon with credentials required.
    fn start() -> Self {
        let dir = data_dir();
        let data = dir.path().join("data");
        let open = Daemon::start(&data);
        let admin = dir.path().join("admin.token");
        let variables = [("KENT_ENDPOINT", open.grpc_address())];
        let words = format!("token create admin --allow admin:* --out {}", admin.display());
        let (code, stdout, stderr) = run_in(&variables, &words);
        assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
        assert!(stderr.contains("(admin), does not expire: admin:*") && !stderr.contains("kent_"), "{stderr}");
        open.kill();
        let mut command = guarded(&data);
        let daemon = Daemon::spawn(command.arg("--audit").arg(dir.path().join("audit.jsonl")));
        Self { daemon, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs `kent` with the token in this file of the directory.
    fn run(&self, token: &str, words: &str) -> (i32, String, String) {
        let file = self.path(token);
        run_in(&[("KENT_ENDPOINT", self.daemon.grpc_address()), ("KENT_TOKEN_FILE", &file)], words)
    }

    #[track_caller]
    fn kent(&self, token: &str, words: &str) -> String {
        let (code, stdout, stderr) = self.run(token, words);
        assert_eq!(code, 0, "kent {words}: {stderr}");
        stdout
    }

    #[track_caller]
    fn refused(&self, token: &str, words: &str) -> String {
        let (code, stdout, stderr) = self.run(token, words);
        assert_eq!((code, stdout.as_str()), (1, ""), "kent {words}: {stderr}");
        stderr
    }

    #[track_caller]
    fn json(&self, token: &str, words: &str) -> Value {
        serde_json::from_str(&self.kent(token, &format!("{words} --json"))).expect("one object")
    }

    /// Creates a token in a file, and returns its ID.
    fn token(&self, name: &str, options: &str) -> String {
        let words = format!("token create {name} {options} --out {}", self.path(name));
        self.json("admin.token", &words)["id"].as_str().expect("a text").to_owned()
    }
}

fn is_token(text: &str) -> bool {
    text.strip_suffix('\n').is_some_and(|token| token.starts_with("kent_") && !token.contains(char::is_whitespace))
}

#[test]
fn err_a_missing_permission_is_the_one_that_the_command_needs() {
    let guarded = Guarded::start();
    guarded.kent("admin.token", "region create orders --suffix 20");
    guarded.token("low", "--allow lease:uuidv7");
    for (words, permission) in [
        ("clock", "operate:*"),
        ("clock accept", "operate:*"),
        ("doctor", "operate:*"),
        ("log-level", "operate:*"),
        ("alloc region:orders", "lease:region:default/orders"),
    ] {
        let refused = guarded.refused("low", words);
        assert!(refused.contains(&format!(" (low) lacks the permission {permission} ")), "{words}: {refused}");
    }
    let refused = guarded.run("admin.token", "role set ops --allow operate:* --certificate CN=ann").2;
    assert!(refused.contains("\"CN=ann\" is neither a URI nor a DNS name"), "{refused}");
}

#[test]
fn ok_a_token_is_created_used_rotated_and_revoked() {
    let guarded = Guarded::start();
    let mode = |name: &str| fs::metadata(guarded.path(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode("admin.token"), 0o600);
    guarded.kent("admin.token", "region create orders --suffix 20");

    let options = "--allow lease:region:default/orders --allow lease:uuidv7 --expires 1h";
    let (code, stdout, stderr) = guarded.run("admin.token", &format!("token create direct {options}"));
    assert!(code == 0 && is_token(&stdout), "standard output must contain only the token: {stdout}");
    assert!(stderr.contains("(direct), expires 20") && !stderr.contains("kent_"), "{stderr}");
    let shown = guarded.json("admin.token", &format!("token create shown {options}"));
    assert!(shown["token"].as_str().is_some_and(|token| token.starts_with("kent_")), "{shown}");
    let id = guarded.token("orders", options);
    assert_eq!(mode("orders"), 0o600);
    let again = format!("token create again {options} --out {}", guarded.path("orders"));
    assert_eq!(guarded.run("admin.token", &again).0, 2, "an existing file was replaced");

    let spare = guarded.token("spare", options);
    let full = || fs::File::options().write(true).open("/dev/full").expect("opened");
    for (words, done) in [
        (format!("token create lost {options}"), "(lost) was created, but the secret could not be written to standard"),
        (
            format!("token rotate {spare} --json"),
            "(spare) has a new secret (the old secret works for 1h more), but the",
        ),
    ] {
        let admin = guarded.path("admin.token");
        let variables = [("KENT_ENDPOINT", guarded.daemon.grpc_address()), ("KENT_TOKEN_FILE", &admin)];
        let output = kent_in(&variables, &words).stdout(full()).output().expect("kent runs");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(
            output.status.code() == Some(1) && said.contains(done) && said.contains("kent token rotate "),
            "{said}"
        );
    }

    guarded.kent("orders", "alloc region:orders -n 3");
    let who = guarded.json("orders", "whoami");
    assert_eq!(who["name"], format!("token:{id} (orders)"));
    assert_eq!(who["permissions"], serde_json::json!(["lease:region:default/orders", "lease:uuidv7"]));
    assert_eq!(who["auth_required"], true);
    let refused = guarded.refused("orders", "region create other --suffix 4");
    let who = format!("token:{id} (orders) lacks the permission edit:region:default/other*");
    assert!(refused.contains(&who) && refused.contains("whoami"), "{refused}");
    // A permission for a region cannot be given before the region exists, so the suggested command has a pattern.
    assert!(refused.contains("--allow 'edit:region:default/other*' --token-file"), "{refused}");
    guarded.token("creator", "--allow edit:region:default/other*");
    guarded.kent("creator", "region create other --suffix 4");

    let (old, listed) = (fs::read(guarded.path("orders")).expect("read"), guarded.kent("admin.token", "token ls"));
    assert!(listed.contains(&id) && listed.contains("lease:region:default/orders, lease:uuidv7"), "{listed}");
    assert!(guarded.kent("admin.token", "token ls -o name").lines().any(|line| line == id));
    assert!(guarded.kent("admin.token", "token ls -o wide").contains("CREATED BY"));
    fs::write(guarded.path("old"), old).expect("written");
    guarded.kent("admin.token", &format!("token rotate {id} --out {}", guarded.path("orders")));
    for file in ["old", "orders"] {
        guarded.kent(file, "alloc uuidv7");
    }
    guarded.kent("admin.token", &format!("token rotate {id} --grace 0s --out {}", guarded.path("orders")));
    assert!(guarded.refused("old", "alloc uuidv7").contains("UNAUTHENTICATED"));
    guarded.kent("orders", "alloc uuidv7");

    assert_eq!(guarded.kent("admin.token", &format!("token revoke {id}")), format!("revoked {id}\n"));
    let refused = guarded.refused("orders", "alloc uuidv7");
    assert!(refused.contains("revoked") && refused.contains("the file of the variable KENT_TOKEN_FILE"), "{refused}");
    let listed = guarded.kent("admin.token", "token ls");
    assert!(listed.lines().any(|line| line.contains(&id) && line.contains("revoked")), "{listed}");

    let audit = fs::read_to_string(guarded.path("audit.jsonl")).expect("read");
    for expected in ["token.create", "token.rotate", "token.revoke", "PERMISSION_DENIED", "CREDENTIAL_ENDED"] {
        assert!(audit.contains(expected), "{expected}: {audit}");
    }
    assert!(!audit.contains("kent_"), "the log contains a secret");
    let tail = guarded.kent("orders", &format!("audit tail {} --action call -n 100", guarded.path("audit.jsonl")));
    assert!(tail.contains("edit:region:default/other*  PERMISSION_DENIED"), "{tail}");
}

#[test]
fn err_callers_without_a_token_or_with_a_bad_one_learn_what_helps() {
    let guarded = Guarded::start();
    let (code, _, stderr) = run_in(&[("KENT_ENDPOINT", guarded.daemon.grpc_address())], "region ls");
    assert!(code == 1 && stderr.contains("--token-file FILE"), "{stderr}");
    let bad = format!("kent_{}_{}\n", "0".repeat(12), "0".repeat(64));
    for (text, code, expected) in [
        (&*bad, 1, "this daemon has no such token"),
        ("hello\n", 2, "a token is kent_ID_SECRET"),
        ("", 2, "a token is kent_ID_SECRET"),
    ] {
        fs::write(guarded.path("bad"), text).expect("written");
        let (found, _, stderr) = guarded.run("bad", "whoami");
        assert!(found == code && stderr.contains(expected) && !stderr.contains(&bad[..20]), "{stderr}");
    }
    let (code, _, stderr) = guarded.run("missing", "whoami");
    assert!(code == 2 && stderr.contains("No such file"), "{stderr}");
    let (code, _, stderr) = guarded.run("admin.token", "whoami --endpoint 192.0.2.1:7600 --request-timeout 1s");
    assert!(code == 2 && stderr.contains("--allow-plain-token"), "{stderr}");
    let plain = "whoami --endpoint 192.0.2.1:7600 --request-timeout 10ms --allow-plain-token";
    assert_eq!(guarded.run("admin.token", plain).0, 1, "it tries to connect");
}

#[test]
fn ok_roles_are_set_given_and_deleted() {
    let guarded = Guarded::start();
    let refused = guarded.run("admin.token", "role set ops --certificate a.example");
    assert!(refused.0 == 1 && refused.2.contains("there is no role ops yet"), "{}", refused.2);
    guarded.kent("admin.token", "role set ops --allow operate:* --certificate spiffe://example/ops");
    guarded.token("ann", "--role ops");
    guarded.kent("ann", "clock accept");
    guarded.refused("ann", "region ls");
    let (code, stdout, stderr) = guarded.run("ann", "region ls -A");
    assert!(code == 2 && stdout.is_empty() && stderr.contains("no space that you may see"), "{stderr}");
    let budget = guarded.refused("admin.token", "budget set ops region:default/nosuch 10");
    assert!(budget.contains("kent region ls --space default"), "{budget}");
    guarded.kent("admin.token", "role set ops --allow operate:* --allow read:*");
    guarded.kent("ann", "region ls");
    let role = guarded.json("admin.token", "role ls");
    assert_eq!(role["permissions"], serde_json::json!(["operate:*", "read:*"]));
    assert_eq!(
        role["certificates"],
        serde_json::json!(["spiffe://example/ops"]),
        "a part that is not given must stay as it was"
    );
    assert_eq!(guarded.kent("admin.token", "role ls -o name"), "ops\n");
    assert_eq!(guarded.kent("admin.token", "role rm ops"), "deleted role ops\n");
    guarded.refused("ann", "clock accept");
}

/// The maximum number of attempts at a completion.
const COMPLETIONS: usize = 20;

#[test]
fn ok_ids_roles_and_permissions_are_completed() {
    let guarded = Guarded::start();
    let id = guarded.token("ann", "--allow read:*");
    guarded.kent("admin.token", "role set ops --allow operate:*");
    guarded.kent("admin.token", "region create orders --suffix 20");
    let complete = |line: &str| -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let index = (words.len() - 1).to_string();
        let file = guarded.path("admin.token");
        let variables = [
            ("KENT_ENDPOINT", guarded.daemon.grpc_address()),
            ("KENT_TOKEN_FILE", &*file),
            ("KENT_COMPLETE", "fish"),
            ("_CLAP_COMPLETE_INDEX", &*index),
        ];
        // A completion waits only briefly for the daemon, so it may be empty on a busy machine.
        for _ in 0..COMPLETIONS {
            let (code, stdout, stderr) = run_in(&variables, &format!("-- {line}"));
            assert_eq!((code, stderr.as_str()), (0, ""), "{line}");
            if !stdout.is_empty() {
                return stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
            }
        }
        Vec::new()
    };
    assert_eq!(complete(&format!("kent token revoke {}", &id[..4])), [&*id]);
    assert_eq!(complete("kent token create x --role o"), ["ops"]);
    assert_eq!(complete("kent role rm o"), ["ops"]);
    assert_eq!(complete("kent token create x --allow le"), ["lease:"]);
    assert_eq!(complete("kent token create x --allow lease:region:d"), ["lease:region:default/orders"]);
    assert_eq!(complete("kent token create x --allow lease:space:"), ["lease:space:default"]);
    assert!(complete("kent token create x --allow lease:").contains(&"lease:*".to_owned()));
}

#[test]
fn ok_a_context_has_the_token() {
    let guarded = Guarded::start();
    let config = guarded.path("kent.toml");
    let run = |words: &str| run_in(&[("KENT_CLIENT_CONFIG", &*config)], words);
    let set = format!(
        "context set prod --endpoint {} --token-file {}",
        guarded.daemon.grpc_address(),
        guarded.path("admin.token")
    );
    assert_eq!(run(&set).0, 0);
    assert_eq!(run("context use prod").0, 0);
    let (code, stdout, stderr) = run("whoami");
    assert!(code == 0 && stdout.contains("(admin)"), "{stderr}");
    assert!(run("context show").1.contains("token-file"));
    assert!(!fs::read_to_string(Path::new(&config)).expect("read").contains("kent_"), "the context contains the token");
}

#[test]
fn ok_two_operators_who_change_parts_of_a_role_at_once_keep_both_changes() {
    let guarded = Guarded::start();
    guarded.kent("admin.token", "role set ops --allow read:* --certificate first.example");
    for round in 0..8 {
        let certificate = format!("round-{round}.example");
        let permission = format!("allocate:serial:R{round}");
        std::thread::scope(|scope| {
            let allow = format!("role set ops --allow {permission}");
            let name = format!("role set ops --certificate {certificate}");
            for words in [allow, name] {
                let guarded = &guarded;
                scope.spawn(move || guarded.kent("admin.token", &words));
            }
        });
        let role = guarded.json("admin.token", "role ls");
        assert_eq!((&role["permissions"][0], &role["certificates"][0]), (&permission.into(), &certificate.into()));
    }
    guarded.kent("admin.token", "role set ops --no-certificates");
    assert_eq!(guarded.json("admin.token", "role ls")["certificates"], Value::Array(Vec::new()));
    let refused = guarded.refused("admin.token", "role set new --certificate a.example");
    assert!(refused.contains("`kent role set new --allow lease:uuidv7`"), "{refused}");
}

#[test]
fn err_a_refusal_suggests_a_command_for_an_operator() {
    let guarded = Guarded::start();
    guarded.token("shop", "--allow allocate:uuidv7");
    let (endpoint, file) = (guarded.daemon.grpc_address(), guarded.path("shop"));
    let run = |words: &str| run_in(&[], &format!("--endpoint {endpoint} --token-file {file} {words}")).2;
    let lacks = run("region ls");
    let command =
        format!("kent --endpoint {endpoint} token create NAME --allow 'read:region:default/*' --token-file FILE");
    assert!(lacks.contains(&command) && lacks.ends_with("(PERMISSION_DENIED)\n"), "{lacks}");
    let admin = guarded.path("admin.token");
    let missing = run_in(&[], &format!("--endpoint {endpoint} --token-file {admin} budget rm absent uuidv7")).2;
    assert!(missing.contains(&format!("(kent --endpoint {endpoint} --token-file {admin} role ls)")), "{missing}");
    let show = run_in(&[], &format!("--endpoint {endpoint} --token-file {admin} budget show absent"));
    assert!(show.0 == 1 && show.2.contains("there is no role \"absent\" (kent "), "{show:?}");
    guarded.kent("admin.token", "role set ops --allow read:*");
    let missing = run_in(&[], &format!("--endpoint {endpoint} --token-file {admin} budget rm ops uuidv7")).2;
    let command = format!("kent --endpoint {endpoint} --token-file {admin} budget set role:ops uuidv7 TOTAL");
    assert!(missing.contains(&command), "{missing}");
}
