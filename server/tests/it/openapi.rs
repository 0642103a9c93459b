//! The OpenAPI document against a running daemon: Schemathesis makes thousands of valid and invalid requests from it,
//! and checks the answers.

use std::process::Command;

use super::{
    harness::{Daemon, create, data_dir, kentd_in_memory},
    python::python,
};

/// The checks of Schemathesis. The document cannot say which requests must succeed, because most rules concern values.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method,\
                      allow_header_conformance";

/// The number of random requests per operation, besides those for each boundary of each schema, and the seed of the
/// random numbers.
const EXAMPLES: &str = "10";
const SEED: &str = "1";

#[tokio::test]
async fn ok_answers_are_as_the_document_says() {
    let Some(interpreter) = python() else { return };
    let daemon = Daemon::spawn(&mut kentd_in_memory());
    daemon.regions().create_region(create("orders")).await.expect("created");
    let reports = data_dir();
    let mut schemathesis = Command::new(interpreter);
    schemathesis
        .current_dir(reports.path())
        .env("SCHEMATHESIS_HOOKS", concat!(env!("CARGO_MANIFEST_DIR"), "/python/openapi_hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "schemathesis.cli", "--no-color", "run"])
        .arg(format!("http://{}/openapi.json", daemon.http_address()))
        .args(["--phases", "coverage,fuzzing", "--checks", CHECKS])
        .args(["--max-examples", EXAMPLES, "--seed", SEED, "--generation-database", "none", "--no-shrink"]);
    let ran = schemathesis.output().expect("the command runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let operations = said.lines().find_map(|line| line.trim().strip_prefix("Tested: "));
    let tested: u32 = operations.and_then(|count| count.trim().parse().ok()).expect("a summary");
    assert!(tested > 40, "{said}");
    assert_eq!(daemon.get("/livez").0, 200);
}
