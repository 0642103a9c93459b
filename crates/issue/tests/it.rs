//! The rules of issuing, tried out: a table of clock behaviour, and random histories against a set that holds every grant.

mod it {
    mod clock;
    mod histories;
    mod world;
}
