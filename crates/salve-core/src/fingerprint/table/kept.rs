//! A value that is part of the program, or was made while it runs.

use std::ops::Deref;

/// A value read in place, wherever it is.
#[derive(Debug)]
pub(crate) enum Kept<T: ?Sized + 'static> {
    /// Part of the program: nothing was done to have it.
    Fixed(&'static T),
    /// Made while the program runs.
    Made(Box<T>),
}

impl<T: ?Sized> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Kept::Fixed(value) => value,
            Kept::Made(value) => value,
        }
    }
}
