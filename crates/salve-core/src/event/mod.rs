//! What may happen: the typed, versioned events of the journal.
