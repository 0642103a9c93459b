//! Tests of the services of one or more daemons on one store.

mod grants;
mod retention;
mod sealing;
mod tables;
