//! Tests of issuing: a table of clock steps, and random histories checked against a set of all grants.

mod it {
    mod clock;
    mod histories;
    mod hostile;
    mod stepped_clock;
    mod world;
}
