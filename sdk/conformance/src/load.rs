//! Reads and checks scripts, so that an error in a script does not look like an error of a client.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{
    codes,
    script::{Answer, Await, Call, Calls, Expect, Script, Step},
};

/// A script that cannot be used.
#[derive(Debug, Error)]
#[error("the script {name}: {problem}")]
pub struct BadScript {
    name: String,
    problem: String,
}

/// The abilities that a client can have beyond the basic commands.
pub const ABILITIES: [&str; 9] = ["try_next", "take", "fetch", "threads", "fork", "xid", "tls", "token_file", "heirs"];
const COMMANDS: [&str; 6] = ["next", "try_next", "take", "fetch", "fork", "close"];
const KINDS: [&str; 8] = ["refused", "limited", "unavailable", "fenced", "unusable", "closed", "forked", "config"];

/// The names and contents of the embedded scripts.
const EMBEDDED: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// Returns the embedded scripts, sorted by name.
///
/// # Errors
///
/// Returns [`BadScript`] for the first script that cannot be used.
pub fn embedded() -> Result<Vec<Script>, BadScript> {
    EMBEDDED.iter().map(|(name, text)| Script::parse(name, text)).collect()
}

/// Reads the scripts of a directory, sorted by name.
///
/// # Errors
///
/// Returns [`BadScript`] for the first script that cannot be used.
pub fn read(folder: &Path) -> Result<Vec<Script>, BadScript> {
    let bad = |name: &Path| {
        let name = name.display().to_string();
        move |error: io::Error| BadScript { name, problem: error.to_string() }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(bad(folder))? {
        paths.push(entry.map_err(bad(folder))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let script = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Script::parse(&name, &fs::read_to_string(path).map_err(bad(path))?)
    };
    paths.iter().map(script).collect()
}

impl Script {
    /// Parses and checks a script.
    ///
    /// # Errors
    ///
    /// Returns a [`BadScript`] that names the script and the problem.
    pub fn parse(name: &str, text: &str) -> Result<Self, BadScript> {
        let bad = |problem: String| BadScript { name: name.to_owned(), problem };
        let mut reader = serde_json::Deserializer::from_str(text);
        let script: Self = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| bad(format!("{}: {}", error.path(), error.inner())))?;
        reader.end().map_err(|error| bad(error.to_string()))?;
        if script.name != name {
            return Err(bad(format!("its name is {:?}, but the file has another name", script.name)));
        }
        script.check().map_err(bad)?;
        Ok(script)
    }

    fn check(&self) -> Result<(), String> {
        let is_daemon = |name: &String| match self.daemons.iter().any(|daemon| daemon.name == *name) {
            true => Ok(()),
            false => Err(format!("there is no daemon {name:?}")),
        };
        known("needs", &self.needs, &ABILITIES)?;
        self.open.endpoints.iter().flatten().try_for_each(is_daemon)?;
        for daemon in &self.daemons {
            daemon.answers.iter().chain([&daemon.then]).try_for_each(Answer::check)?;
        }
        let mut started = Vec::new();
        for step in &self.steps {
            match step {
                Step::Call(call) | Step::Start(call) => {
                    call.check()?;
                    started.extend(&call.name);
                }
                Step::Finish(finish) if !started.contains(&&finish.name) => {
                    return Err(format!("no command has the name {:?}", finish.name));
                }
                Step::Finish(finish) => finish.expect.check()?,
                Step::Answers(answers) => {
                    is_daemon(&answers.of)?;
                    answers.answers.iter().chain([&answers.then]).try_for_each(Answer::check)?;
                }
                Step::Die(of) | Step::ComeBack(of) => is_daemon(of)?,
                Step::Await(Await { of, .. }) | Step::Calls(Calls { of, .. }) => is_daemon(of)?,
                Step::SleepMs(_) | Step::Write(_) => {}
            }
            if let Step::Start(Call { name: None, .. }) = step {
                return Err("a command that is started needs a name".to_owned());
            }
        }
        Ok(())
    }
}

impl Answer {
    fn check(&self) -> Result<(), String> {
        let parts = [self.grant.is_some(), self.refuse.is_some(), self.does.is_some()];
        if parts.iter().filter(|part| **part).count() > 1 {
            return Err("an answer can have only one of grant, refuse and does".to_owned());
        }
        match &self.refuse {
            Some(refuse) if codes::parse(&refuse.code).is_none() => {
                Err(format!("{:?} is not the name of a gRPC code", refuse.code))
            }
            _ => Ok(()),
        }
    }
}

impl Call {
    fn check(&self) -> Result<(), String> {
        known("do", std::slice::from_ref(&self.r#do), &COMMANDS)?;
        known("needs", &self.needs, &ABILITIES)?;
        self.expect.check()
    }
}

impl Expect {
    fn check(&self) -> Result<(), String> {
        if let Some(error) = &self.error {
            known("kind", &error.kind, &KINDS)?;
        }
        self.or.as_ref().map_or(Ok(()), |or| or.check())
    }
}

fn known(member: &str, words: &[String], allowed: &[&str]) -> Result<(), String> {
    match words.iter().find(|word| !allowed.contains(&word.as_str())) {
        Some(word) => Err(format!("{member} has {word:?}, but must be one of {}", allowed.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Script::parse("a", text).expect_err("must be refused").to_string()
    }

    #[test]
    fn ok_all_scripts_of_the_kit_can_be_used_and_say_what_they_are_about() {
        let scripts = embedded().expect("usable");
        assert!(scripts.len() > 30);
        for script in scripts {
            assert!(script.about.ends_with('.'), "{}", script.name);
        }
    }

    #[test]
    fn err_each_mistake_is_named_with_its_place() {
        let with = |rest: &str| format!(r#"{{"name": "a", "about": "", "daemons": [{{"name": "d"}}], {rest}}}"#);
        for (text, expected) in [
            ("{".to_owned(), "EOF"),
            (with(r#""steps": [], "extra": 1"#), "unknown field `extra`"),
            (with(r#""steps": [{"call": {"do": "next", "cuont": 1}}]"#), "steps[0].call.cuont: unknown field `cuont`"),
            (with(r#""steps": [{"call": {"do": "nxt"}}]"#), r#"do has "nxt", but must be one of next"#),
            (with(r#""steps": [{"die": "e"}]"#), r#"there is no daemon "e""#),
            (with(r#""steps": [{"start": {"do": "next"}}]"#), "needs a name"),
            (with(r#""steps": [{"finish": {"name": "x"}}]"#), r#"no command has the name "x""#),
            (with(r#""steps": [], "needs": ["wings"]"#), r#"needs has "wings""#),
            (
                with(r#""steps": [{"answers": {"of": "d", "then": {"refuse": {"code": "NO"}}}}]"#),
                "not the name of a gRPC code",
            ),
            (
                with(r#""steps": [{"answers": {"of": "d", "then": {"does": "lose", "grant": {}}}}]"#),
                "only one of grant",
            ),
            (
                with(r#""steps": [{"call": {"do": "next", "expect": {"or": {"error": {"kind": ["bad"]}}}}}]"#),
                r#"kind has "bad""#,
            ),
        ] {
            assert!(problem(&text).contains(expected), "{}", problem(&text));
        }
        let renamed = with(r#""steps": []"#).replace(r#""a""#, r#""b""#);
        assert!(problem(&renamed).contains("the file has another name"));
    }
}
