//! The code that calls the methods of a service by name, with encoded messages.
//!
//! tonic's server has its own copy of the code for a call in each method: 11 % of the daemon's code. With this table,
//! one copy serves all methods of the services that are called rarely.

use std::fmt::Write;

use prost_build::{Method, Service};

/// Writes `SERVICEMethods`, which implements `Methods` of `kent-proto`. Returns nothing for a service with streams of
/// requests.
pub(crate) fn by_name(service: &Service) -> String {
    if service.methods.iter().any(|method| method.client_streaming) {
        return String::new();
    }
    let (name, package, path) = (&service.name, &service.package, &service.proto_name);
    let server = format!("{}_server", snake(name));
    let mut code = format!(
        "/// The methods of `{name}` by name.
#[derive(Debug)]
pub struct {name}Methods<T>(std::sync::Arc<T>);
impl<T> {name}Methods<T> {{
    pub fn new(service: T) -> Self {{
        Self(std::sync::Arc::new(service))
    }}
}}
impl<T: {server}::{name}> crate::methods::Methods for {name}Methods<T> {{
    fn service(&self) -> &'static str {{
        \"{package}.{path}\"
    }}
    fn call(&self, name: &str, request: tonic::Request<bytes::Bytes>) -> Option<crate::methods::Call> {{
        #[allow(unused_imports)]
        use crate::methods::{{decode, message, messages}};
        let service = self.0.clone();
        Some(match name {{
"
    );
    for Method { name, proto_name, server_streaming, .. } in &service.methods {
        let answer = if *server_streaming { "messages" } else { "message" };
        let arm = format!(
            "            \"{proto_name}\" => Box::pin(async move {{ {answer}(service.{name}(decode(request)?).await?) }}),"
        );
        // OK because writing to a string does not fail.
        let _ = writeln!(code, "{arm}");
    }
    code.push_str(
        "            _ => return None,
        })
    }
}
",
    );
    code
}

/// Converts the name of a service to the name of its module.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_names_of_modules() {
        for (name, module) in [("Regions", "regions"), ("AdminTools", "admin_tools")] {
            assert_eq!(snake(name), module);
        }
    }
}
