//! The driver with a scripted subject.
