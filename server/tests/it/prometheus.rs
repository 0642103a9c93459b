//! A real Prometheus that scrapes real daemons.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;

use super::harness::data_dir;

/// A Prometheus, which is killed when it is dropped.
pub(super) struct Prometheus {
    process: Child,
    address: String,
    _dir: tempfile::TempDir,
}

/// A daemon to scrape.
pub(super) struct Target<'t> {
    /// The label `instance`.
    pub(super) instance: &'t str,
    /// `http` or `https`.
    pub(super) scheme: &'t str,
    /// The address of the HTTP port.
    pub(super) address: &'t str,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these daemons several times per second, and verifies them with this CA.
    pub(super) fn start(targets: &[Target<'_>], ca: &str) -> Self {
        let dir = data_dir();
        fs::write(dir.path().join("ca.pem"), ca).expect("written");
        let targets: String = targets
            .iter()
            .map(|Target { instance, scheme, address }| {
                format!("      - {{targets: ['{address}'], labels: {{instance: {instance}, __scheme__: {scheme}}}}}\n")
            })
            .collect();
        let config = format!(
            "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\nscrape_configs:\n  - job_name: kent\n    \
             tls_config: {{ca_file: ca.pem}}\n    static_configs:\n{targets}"
        );
        fs::write(dir.path().join("prometheus.yml"), config).expect("written");
        let mut command = Command::new("prometheus");
        command.args(["--web.listen-address=127.0.0.1:0", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        let command = command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("prometheus is not installed: apt-get install prometheus");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, address) = line.split_once("msg=\"Listening on\" address=")?;
            Some(address.trim().to_owned())
        });
        // Drain the pipe, because Prometheus would block if it filled up.
        thread::spawn(move || lines.for_each(drop));
        Self { process, address: address.expect("prometheus reports its address"), _dir: dir }
    }

    /// Sends GET to the API, and returns the data of its answer.
    pub(super) fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let mut curl = Command::new("curl");
        // A Prometheus that is not ready answers 503. Without --fail, that body would precede the body of the retry.
        curl.args(["--silent", "--show-error", "--noproxy", "*", "--get", "--fail"]);
        curl.args(["--retry", "20", "--retry-connrefused"]);
        curl.arg(format!("http://{}/api/v1/{path}", self.address));
        parameters.iter().for_each(|(name, value)| {
            curl.arg("--data-urlencode").arg(format!("{name}={value}"));
        });
        let output = curl.output().expect("curl runs");
        assert!(output.status.success(), "{path} {parameters:?}: {}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["status"], "success", "{path} {parameters:?}: {answer}");
        answer["data"].clone()
    }

    /// The series that an expression has now: their labels and values.
    pub(super) fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.get("query", &[("query", expression)]);
        answer["result"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
