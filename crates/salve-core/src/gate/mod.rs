//! Rules on a command: allow, ask a person, or deny.
