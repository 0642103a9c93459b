//! To be written in this session.
